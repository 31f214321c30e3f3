/* Svc\per_request(string $class, callable $factory, ?callable $reset = null, int $max = 16): object
 *
 * The class of the object extends or implements `$class`, so that it passes wherever that type is required. */
#include "compat.h"
#include "worker/connections/instances/instances.h"

#include <ext/spl/spl_exceptions.h>
#include <zend_smart_str.h>

#define PREFIX "Svc\\PerRequest\\"

enum { MAX_DEFAULT = 16, MAX_MOST = 65536 };

static bool throw_unfit(const zend_class_entry *class, const char *why)
{
    zend_throw_exception_ex(spl_ce_InvalidArgumentException, 0,
                            "Svc\\per_request() needs a class or an interface that can be extended: %s %s",
                            ZSTR_VAL(class->name), why);
    return false;
}

/* Tested connection classes: their objects are C structs, but only their methods access these. */
static const char *const connections[] = {"pdo", "mysqli", "redis", "memcached", "soapclient"};

static bool is_connection(const zend_class_entry *class)
{
    for (size_t i = 0; i < SHIM_COUNT(connections); i++) {
        const zend_class_entry *one = zend_hash_str_find_ptr(EG(class_table), connections[i], strlen(connections[i]));
        if (one != NULL && instanceof_function(class, one)) {
            return true;
        }
    }
    return false;
}

/* Whether objects of the class have state besides their properties, which the engine and extensions access without its
 * handlers. A PHP class inherits this from the C class that it extends. */
static bool is_struct(const zend_class_entry *class)
{
    return class->create_object != NULL || class->default_object_handlers != &std_object_handlers;
}

/* Whether the interface may be implemented by a PHP class: the listed ones check their implementors, but accept PHP
 * classes. Refusal by another interface would be a fatal error. */
static bool is_open(const zend_class_entry *interface)
{
    const zend_class_entry *json = zend_hash_str_find_ptr(EG(class_table), "jsonserializable", strlen("jsonserializable"));
    const zend_class_entry *const open[] = {zend_ce_aggregate, zend_ce_iterator, zend_ce_arrayaccess, zend_ce_serializable,
                                            json};
    bool is_open = interface->interface_gets_implemented == NULL;
    for (size_t i = 0; i < SHIM_COUNT(open); i++) {
        is_open = is_open || (open[i] != NULL && interface->interface_gets_implemented == open[i]->interface_gets_implemented);
    }
    return is_open;
}

/* Whether a PHP class may implement the interface and all above it. Traversable accepts classes that implement Iterator or
 * IteratorAggregate, but not both. */
static bool can_be_implemented(const zend_class_entry *interface)
{
    if (!is_open(interface)) {
        return false;
    }
    bool iterates = interface == zend_ce_iterator, aggregates = interface == zend_ce_aggregate;
    for (uint32_t i = 0; i < interface->num_interfaces; i++) {
        const zend_class_entry *above = interface->interfaces[i];
        iterates = iterates || above == zend_ce_iterator;
        aggregates = aggregates || above == zend_ce_aggregate;
        if (above != zend_ce_traversable && !is_open(above)) {
            return false;
        }
    }
    return !(iterates && aggregates);
}

static bool is_fit(const zend_class_entry *class)
{
    if ((class->ce_flags & ZEND_ACC_ENUM) != 0) {
        return throw_unfit(class, "is an enum");
    }
    if ((class->ce_flags & ZEND_ACC_TRAIT) != 0) {
        return throw_unfit(class, "is a trait");
    }
    if ((class->ce_flags & ZEND_ACC_ANON_CLASS) != 0) {
        return throw_unfit(class, "is anonymous");
    }
    if ((class->ce_flags & ZEND_ACC_FINAL) != 0) {
        return throw_unfit(class, "is final");
    }
    if ((class->ce_flags & ZEND_ACC_INTERFACE) != 0) {
        return can_be_implemented(class) || throw_unfit(class, "cannot be implemented by a class");
    }
    return !is_struct(class) || is_connection(class) || throw_unfit(class, "has a state in C, which is that of one object");
}

/* Returns the code that declares the class. No script instantiates it, so its methods may stay abstract. */
static zend_string *declaration(const zend_class_entry *class)
{
    const char *name = ZSTR_VAL(class->name);
    const char *slash = strrchr(name, '\\');
    smart_str code = {0};
    smart_str_appends(&code, "namespace Svc\\PerRequest");
    if (slash != NULL) {
        smart_str_appendc(&code, '\\');
        smart_str_appendl(&code, name, (size_t)(slash - name));
    }
    smart_str_appends(&code,
                      (class->ce_flags & ZEND_ACC_READONLY_CLASS) != 0 ? "; abstract readonly class " : "; abstract class ");
    smart_str_appends(&code, slash != NULL ? slash + 1 : name);
    smart_str_appends(&code, (class->ce_flags & ZEND_ACC_INTERFACE) != 0 ? " implements \\" : " extends \\");
    smart_str_append(&code, class->name);
    smart_str_appends(&code, " {}");
    return smart_str_extract(&code);
}

/* Returns the class of objects that stand in for `class`; declares it on first use. */
static zend_class_entry *class_below(const zend_class_entry *class)
{
    zend_string *name = zend_string_concat2(PREFIX, strlen(PREFIX), ZSTR_VAL(class->name), ZSTR_LEN(class->name));
    zend_string *key = zend_string_tolower(name);
    zend_class_entry *found = zend_hash_find_ptr(EG(class_table), key);
    if (found == NULL) {
        zend_string *code = declaration(class);
        if (zend_eval_stringl(ZSTR_VAL(code), ZSTR_LEN(code), NULL, "Svc\\per_request()") == SUCCESS && EG(exception) == NULL) {
            found = zend_hash_find_ptr(EG(class_table), key);
        }
        zend_string_release(code);
        if (found != NULL) {
            shim_proxy_class_finish(found);
        }
    } else if (!shim_proxy_class_is(found)) {
        zend_throw_exception_ex(spl_ce_InvalidArgumentException, 0, "Svc\\per_request() needs the name %s for a class",
                                ZSTR_VAL(name));
        found = NULL;
    }
    zend_string_release(key);
    zend_string_release(name);
    return found;
}

static ZEND_NAMED_FUNCTION(per_request)
{
    zend_class_entry *class;
    zend_string *name;
    zend_fcall_info factory, reset = {0};
    zend_fcall_info_cache factory_cache, reset_cache;
    zend_long max = MAX_DEFAULT;
    ZEND_PARSE_PARAMETERS_START(2, 4)
        Z_PARAM_STR(name)
        Z_PARAM_FUNC(factory, factory_cache)
        Z_PARAM_OPTIONAL
        Z_PARAM_FUNC_OR_NULL(reset, reset_cache)
        Z_PARAM_LONG(max)
    ZEND_PARSE_PARAMETERS_END();
    if (max < 1 || max > MAX_MOST) {
        zend_argument_value_error(4, "must be between 1 and %d", MAX_MOST);
        RETURN_THROWS();
    }
    class = zend_lookup_class(name);
    if (class == NULL) {
        if (EG(exception) == NULL) {
            zend_throw_exception_ex(spl_ce_InvalidArgumentException, 0, "Class \"%s\" does not exist", ZSTR_VAL(name));
        }
        RETURN_THROWS();
    }
    if (!is_fit(class)) {
        RETURN_THROWS();
    }
    zend_class_entry *below = class_below(class);
    if (below == NULL) {
        RETURN_THROWS();
    }
    shim_proxy_make(return_value, below, class, &factory.function_name,
                    ZEND_FCI_INITIALIZED(reset) ? &reset.function_name : NULL, (uint32_t)max);
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_per_request, 0, 2, IS_OBJECT, 0)
    ZEND_ARG_TYPE_INFO(0, class, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, factory, IS_CALLABLE, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, reset, IS_CALLABLE, 1, "null")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, max, IS_LONG, 0, "16")
ZEND_END_ARG_INFO()

const zend_function_entry shim_per_request_functions[] = {
    ZEND_NS_NAMED_FE("Svc", per_request, per_request, arginfo_per_request)
    PHP_FE_END
};
