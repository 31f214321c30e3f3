/* Followed classes and functions: those of the extensions that use databases, key-value stores and curl, and every class
 * that extends theirs. Without owners, only those on which a request can leave something open. */
#include "compat.h"
#include "worker/connections/connections.h"
#include "worker/connections/owners/owners.h"

/* Extensions all of whose functions use connections; the last one is tracked only if connections have owners. */
static const char *const modules[] = {"mysqli", "pgsql", "curl"};

static bool with_owners;

/* Whether a request can leave something open on an object of the kind that the next one finds. */
static bool can_be_left_open(shim_kind kind)
{
    const bool is_store = shim_kind_is_store(kind) && kind != SHIM_KIND_MEMCACHED && kind != SHIM_KIND_REDIS_SENTINEL;
    return is_store || !shim_kind_is_leased(kind);
}

static zif_handler wrapper_of(const zend_function *function)
{
    char name[64];
    zend_str_tolower_copy(name, ZSTR_VAL(function->common.function_name),
                          MIN(ZSTR_LEN(function->common.function_name), sizeof(name) - 1));
    zif_handler wrapper = shim_connecting_wrapper(name);
    wrapper = wrapper != NULL ? wrapper : shim_multi_wrapper(name);
    wrapper = wrapper != NULL ? wrapper : shim_large_object_wrapper(name);
    return wrapper != NULL               ? wrapper
           : strcmp(name, "backup") == 0 ? shim_call_on_two_connections
                                         : shim_call_on_connection;
}

static void wrap(zend_function *function)
{
    if (function->type == ZEND_INTERNAL_FUNCTION) {
        shim_call_wrap(function, wrapper_of(function));
    }
}

static bool is_of_module(const zend_function *function)
{
    const zend_module_entry *module =
        function->type == ZEND_INTERNAL_FUNCTION ? function->internal_function.module : NULL;
    const size_t count = SHIM_COUNT(modules) - (with_owners ? 0 : 1);
    for (size_t i = 0; module != NULL && i < count; i++) {
        if (strcmp(module->name, modules[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_or_extends(const zend_class_entry *class, zend_class_entry *const *roots)
{
    for (; class != NULL; class = (class->ce_flags & ZEND_ACC_LINKED) != 0 ? class->parent : NULL) {
        for (int kind = 0; kind < SHIM_KINDS; kind++) {
            if (roots[kind] == class) {
                return true;
            }
        }
    }
    return false;
}

static void track_class(zend_class_entry *class)
{
    zend_function *function;
    ZEND_HASH_FOREACH_PTR(&class->function_table, function) {
        wrap(function);
    } ZEND_HASH_FOREACH_END();
    shim_objects_track_subclass(class);
    if (with_owners) {
        shim_iterators_track(class);
    }
}

bool shim_connections_install(bool have_owners)
{
    zend_class_entry *roots[SHIM_KINDS];
    zend_class_entry *class;
    zend_function *function;
    if (!shim_calls_install()) {
        return false;
    }
    with_owners = have_owners;
    shim_wait_queue_install();
    shim_rest_install();
    shim_objects_on_function = wrap;
    shim_objects_on_multi_freed = shim_multi_empty;
    for (int kind = 0; kind < SHIM_KINDS; kind++) {
        const char *name = shim_kind_class((shim_kind)kind);
        const bool is_wanted = with_owners || can_be_left_open((shim_kind)kind);
        roots[kind] = is_wanted ? zend_hash_str_find_ptr(CG(class_table), name, strlen(name)) : NULL;
        if (roots[kind] != NULL) {
            shim_objects_track(roots[kind], (shim_kind)kind);
        }
    }
    ZEND_HASH_FOREACH_PTR(CG(class_table), class) {
        if (is_or_extends(class, roots)) {
            track_class(class);
        }
    } ZEND_HASH_FOREACH_END();
    ZEND_HASH_FOREACH_PTR(CG(function_table), function) {
        if (is_of_module(function)) {
            wrap(function);
        }
    } ZEND_HASH_FOREACH_END();
    if (with_owners) {
        shim_streams_follow();
    }
    return true;
}

void shim_connections_stop(void)
{
    shim_wait_queue_forget();
    shim_uses_forget();
    shim_connections_forget();
    shim_objects_forget_postponed();
}
