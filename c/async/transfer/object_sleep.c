/* Objects with __sleep(): the properties that they name, with the rules and the warnings of serialize(). */
#include "async/transfer/object_sleep.h"

/* Copies the property with this (mangled) name, if there is one. An uninitialized one is left out. */
static bool copy_property(HashTable *to, HashTable *from, zend_string *name, zend_object *object)
{
    zval *value = zend_hash_find(from, name);
    if (value == NULL) {
        return false;
    }
    if (Z_TYPE_P(value) == IS_INDIRECT) {
        value = Z_INDIRECT_P(value);
        if (Z_TYPE_P(value) == IS_UNDEF) {
            return zend_get_typed_property_info_for_slot(object, value) != NULL;
        }
    }
    if (zend_hash_add(to, name, value) == NULL) {
        zend_error(E_WARNING, "A property is returned from %s::__sleep() multiple times", ZSTR_VAL(object->ce->name));
        return true;
    }
    Z_TRY_ADDREF_P(value);
    return true;
}

static bool copy_mangled(HashTable *to, HashTable *from, const char *class_name, size_t length, zend_string *name, zend_object *object)
{
    zend_string *mangled = zend_mangle_property_name(class_name, length, ZSTR_VAL(name), ZSTR_LEN(name), false);
    const bool is_copied = copy_property(to, from, mangled, object);
    zend_string_release(mangled);
    return is_copied;
}

static void copy_named(HashTable *to, HashTable *from, zval *value, zend_object *object)
{
    const zend_string *class_name = object->ce->name;
    zend_string *held;
    if (Z_TYPE_P(value) != IS_STRING) {
        zend_error(E_WARNING, "%s::__sleep() should return an array only containing the names of instance-variables to serialize",
                   ZSTR_VAL(class_name));
    }
    zend_string *name = zval_get_tmp_string(value, &held);
    if (EG(exception) == NULL && !copy_property(to, from, name, object) &&
        !copy_mangled(to, from, ZSTR_VAL(class_name), ZSTR_LEN(class_name), name, object) &&
        !copy_mangled(to, from, "*", 1, name, object)) {
        zend_error(E_WARNING, "\"%s\" returned as member variable from __sleep() but does not exist", ZSTR_VAL(name));
    }
    zend_tmp_string_release(held);
}

static HashTable *copy_all(zend_object *object, HashTable *names)
{
    zval value, *name;
    ZVAL_OBJ(&value, object);
    HashTable *from = zend_get_properties_for(&value, ZEND_PROP_PURPOSE_SERIALIZE);
    HashTable *to = zend_new_array(zend_hash_num_elements(names));
    ZEND_HASH_FOREACH_VAL_IND(names, name) {
        ZVAL_DEREF(name);
        if (from != NULL && EG(exception) == NULL) {
            copy_named(to, from, name, object);
        }
    } ZEND_HASH_FOREACH_END();
    zend_release_properties(from);
    if (EG(exception) != NULL) {
        zend_array_release(to);
        return NULL;
    }
    return to;
}

HashTable *shim_object_sleep(zend_object *object, zend_function *sleep)
{
    zval result;
    HashTable *properties = NULL;
    BG(serialize_lock)++;
    zend_call_known_instance_method(sleep, object, &result, 0, NULL);
    BG(serialize_lock)--;
    if (EG(exception) == NULL && Z_TYPE(result) == IS_ARRAY) {
        properties = copy_all(object, Z_ARRVAL(result));
    } else if (EG(exception) == NULL) {
        zend_error(E_WARNING, "%s::__sleep() should return an array only containing the names of instance-variables to serialize",
                   ZSTR_VAL(object->ce->name));
    }
    zval_ptr_dtor(&result);
    return properties;
}
