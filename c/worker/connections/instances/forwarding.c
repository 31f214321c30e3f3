/* The methods of the classes of Svc\per_request()'s objects.
 *
 * When a script calls a method of the object, its handler returns the instance's method (proxy.c). But the engine calls
 * methods, too (count(), iterators, json_encode(), sort functions of SPL), and looks them up in the class without calling
 * that handler. There it finds these: C functions with the signatures of the inherited methods, which call those on the
 * instance. */
#include "compat.h"
#include "worker/connections/instances/instances.h"

/* Creates a method in the memory of classes, where the engine keeps C methods that a PHP class inherits. */
static zend_function *stand_in(const zend_function *method, zif_handler handler)
{
    const uint32_t kept = ZEND_ACC_PPP_MASK | ZEND_ACC_FINAL | ZEND_ACC_RETURN_REFERENCE | ZEND_ACC_VARIADIC |
                          ZEND_ACC_HAS_RETURN_TYPE | ZEND_ACC_USER_ARG_INFO;
    zend_internal_function *own = zend_arena_calloc(&CG(arena), 1, sizeof(*own));
    own->type = ZEND_INTERNAL_FUNCTION;
    own->fn_flags = (method->common.fn_flags & kept) | ZEND_ACC_ARENA_ALLOCATED;
    if (method->type == ZEND_USER_FUNCTION) {
        own->fn_flags |= ZEND_ACC_USER_ARG_INFO;
    }
    own->function_name = zend_new_interned_string(zend_string_copy(method->common.function_name));
    own->scope = method->common.scope;
    own->prototype = method->common.prototype != NULL ? method->common.prototype : (zend_function *)method;
    own->num_args = method->common.num_args;
    own->required_num_args = method->common.required_num_args;
    own->arg_info = (zend_internal_arg_info *)method->common.arg_info;
    own->attributes = method->common.attributes;
    own->handler = handler;
    zend_set_function_arg_flags((zend_function *)own);
    return (zend_function *)own;
}

/* Static methods need no instance; constructors and destructors belong to one object. */
static bool is_forwarded(const zend_function *method)
{
    return (method->common.fn_flags & (ZEND_ACC_STATIC | ZEND_ACC_CTOR)) == 0 &&
           !zend_string_equals_literal_ci(method->common.function_name, ZEND_DESTRUCTOR_FUNC_NAME);
}

/* Replaces a method in one of the class's direct pointers to magic methods. */
static void replace(zend_function **known, const zend_function *inherited, zend_function *own)
{
    if (*known == inherited) {
        *known = own;
    }
}

static void replace_magic(zend_class_entry *class, const zend_function *inherited, zend_function *own)
{
    replace(&class->clone, inherited, own);
    replace(&class->__get, inherited, own);
    replace(&class->__set, inherited, own);
    replace(&class->__unset, inherited, own);
    replace(&class->__isset, inherited, own);
    replace(&class->__call, inherited, own);
    replace(&class->__tostring, inherited, own);
    replace(&class->__debugInfo, inherited, own);
    replace(&class->__serialize, inherited, own);
    replace(&class->__unserialize, inherited, own);
    if (class->iterator_funcs_ptr != NULL) {
        zend_class_iterator_funcs *functions = class->iterator_funcs_ptr;
        replace(&functions->zf_new_iterator, inherited, own);
        replace(&functions->zf_valid, inherited, own);
        replace(&functions->zf_current, inherited, own);
        replace(&functions->zf_key, inherited, own);
        replace(&functions->zf_next, inherited, own);
        replace(&functions->zf_rewind, inherited, own);
    }
    if (class->arrayaccess_funcs_ptr != NULL) {
        zend_class_arrayaccess_funcs *functions = class->arrayaccess_funcs_ptr;
        replace(&functions->zf_offsetget, inherited, own);
        replace(&functions->zf_offsetexists, inherited, own);
        replace(&functions->zf_offsetset, inherited, own);
        replace(&functions->zf_offsetunset, inherited, own);
    }
}

void shim_forwarding_define(zend_class_entry *class, zif_handler handler)
{
    zval *entry;
    ZEND_HASH_FOREACH_VAL(&class->function_table, entry) {
        zend_function *inherited = Z_PTR_P(entry);
        if (is_forwarded(inherited)) {
            zend_function *own = stand_in(inherited, handler);
            replace_magic(class, inherited, own);
            Z_PTR_P(entry) = own;
            zval previous;
            ZVAL_PTR(&previous, inherited);
            zend_function_dtor(&previous);
        }
    } ZEND_HASH_FOREACH_END();
}

zend_function *shim_forwarding_target(const zend_function *method, const zend_object *own)
{
    const bool is_private = (method->common.fn_flags & ZEND_ACC_PRIVATE) != 0;
    const zend_class_entry *class = is_private ? method->common.scope : own->ce;
    zend_string *key = zend_string_tolower(method->common.function_name);
    /* PHP 8.3 has no lookup in a const table. */
    zend_function *target = zend_hash_find_ptr((HashTable *)&class->function_table, key);
    zend_string_release(key);
    return target;
}
