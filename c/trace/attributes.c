/* Attributes: from PHP's values to the host's.
 *
 * Arguments are checked whether a span is recorded or not: an invalid one fails everywhere, not only in requests that
 * are traced. */
#include "php/context/context.h"
#include "trace/trace.h"

/* Returns the type of a scalar; false if the value is not a scalar. */
static bool type_of(const zval *value, shim_scalar_type *type)
{
    switch (Z_TYPE_P(value)) {
    case IS_FALSE:
    case IS_TRUE:
        *type = SHIM_SCALAR_BOOL;
        return true;
    case IS_LONG:
        *type = SHIM_SCALAR_INT;
        return true;
    case IS_DOUBLE:
        *type = SHIM_SCALAR_FLOAT;
        return true;
    case IS_STRING:
        *type = SHIM_SCALAR_TEXT;
        return true;
    default:
        return false;
    }
}

static void put(shim_scalar *to, const zval *value)
{
    *to = (shim_scalar){0};
    switch (Z_TYPE_P(value)) {
    case IS_TRUE:
        to->integer = 1;
        break;
    case IS_LONG:
        to->integer = Z_LVAL_P(value);
        break;
    case IS_DOUBLE:
        to->number = Z_DVAL_P(value);
        break;
    case IS_STRING:
        to->text = shim_view_of_string(Z_STR_P(value));
        break;
    default:
        break;
    }
}

static bool refuse(const zend_string *name, uint32_t argument, const char *what, const char *which)
{
    zend_argument_type_error(argument, "must be bool, int, float, string, or a list of one of them (attribute \"%s\": %s%s)",
                             ZSTR_VAL(name), what, which);
    return false;
}

/* Counts the scalars of the value. Returns false, with a TypeError, if it is not a valid attribute. */
static bool count(const zend_string *name, zval *value, uint32_t argument, size_t *scalars)
{
    shim_scalar_type first = SHIM_SCALAR_TEXT, type;
    ZVAL_DEREF(value);
    *scalars = 1;
    if (Z_TYPE_P(value) != IS_ARRAY) {
        return type_of(value, &first) || refuse(name, argument, zend_zval_value_name(value), "");
    }
    *scalars = zend_hash_num_elements(Z_ARRVAL_P(value));
    if (!zend_array_is_list(Z_ARRVAL_P(value))) {
        return refuse(name, argument, "", "an array that is no list");
    }
    bool is_first = true;
    zval *one;
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(value), one) {
        ZVAL_DEREF(one);
        if (!type_of(one, &type)) {
            return refuse(name, argument, "a list with ", zend_zval_value_name(one));
        }
        if (!is_first && type != first) {
            return refuse(name, argument, "", "a list of several types");
        }
        first = type;
        is_first = false;
    } ZEND_HASH_FOREACH_END();
    return true;
}

/* Returns the first scalar after the written ones. */
static shim_scalar *put_attribute(shim_attribute *to, const zend_string *name, zval *value, shim_scalar *scalars)
{
    ZVAL_DEREF(value);
    *to = (shim_attribute){
        .name = shim_view_of_string(name),
        .type = SHIM_SCALAR_TEXT,
        .is_list = Z_TYPE_P(value) == IS_ARRAY,
        .values = scalars,
    };
    if (!to->is_list) {
        (void)type_of(value, &to->type);
        put(scalars, value);
        to->count = 1;
        return scalars + 1;
    }
    zval *one;
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(value), one) {
        ZVAL_DEREF(one);
        (void)type_of(one, &to->type);
        put(&scalars[to->count++], one);
    } ZEND_HASH_FOREACH_END();
    return scalars + to->count;
}

/* Allocates one block: the attributes, followed by their values. */
static shim_scalar *reserve(shim_attributes *attributes, size_t count, size_t scalars)
{
    attributes->list = emalloc(zend_safe_address_guarded(scalars, sizeof(shim_scalar), count * sizeof(shim_attribute)));
    attributes->count = count;
    return (shim_scalar *)(attributes->list + count);
}

bool shim_attribute_take(shim_attributes *attributes, zend_string *name, zval *value, uint32_t argument)
{
    size_t scalars;
    *attributes = (shim_attributes){0};
    if (!count(name, value, argument, &scalars)) {
        return false;
    }
    shim_scalar *first = reserve(attributes, 1, scalars);
    (void)put_attribute(attributes->list, name, value, first);
    return true;
}

bool shim_attributes_take(shim_attributes *attributes, HashTable *values, uint32_t argument)
{
    size_t all = 0, scalars;
    zend_string *name;
    zval *value;
    *attributes = (shim_attributes){0};
    if (values == NULL || zend_hash_num_elements(values) == 0) {
        return true;
    }
    ZEND_HASH_FOREACH_STR_KEY_VAL(values, name, value) {
        if (name == NULL) {
            zend_argument_type_error(argument, "must have names as keys, but has numbers");
            return false;
        }
        if (!count(name, value, argument, &scalars)) {
            return false;
        }
        all += scalars;
    } ZEND_HASH_FOREACH_END();
    shim_scalar *next = reserve(attributes, zend_hash_num_elements(values), all);
    shim_attribute *to = attributes->list;
    ZEND_HASH_FOREACH_STR_KEY_VAL(values, name, value) {
        next = put_attribute(to++, name, value, next);
    } ZEND_HASH_FOREACH_END();
    return true;
}

void shim_attributes_free(shim_attributes *attributes)
{
    if (attributes->list != NULL) {
        efree(attributes->list);
    }
    *attributes = (shim_attributes){0};
}
