/* Values on their way out. Objects are written with what serialize() would write of them.
 *
 * php_var_serialize() cannot be used: it writes a resource as 0, has no bound for bytes, none for its depth if
 * zend.max_allowed_stack_size is off, and writes the arguments of calls in the traces of exceptions. A walk over the
 * value beforehand would not find a resource that only __serialize() or an ArrayObject returns, because these may be
 * called only once.
 *
 * Objects are numbered as by PHP's serializer, whose state is lent to classes that serialize themselves (Serializable):
 * what they contain keeps its identity, too. */
#include "async/transfer/transfer.h"

#include <ext/standard/php_incomplete_class.h>
#include <zend_closures.h>
#include <zend_enum.h>
#include <zend_generators.h>

static bool pack_at(shim_packer *packer, const shim_place *place, zval *value);

/* ---- numbers ---- */

/* Copied from PHP, so that handlers of extensions can continue the count. */
struct php_serialize_data {
    HashTable ht;
    uint32_t n;
};

/* Returns the number of an object or a reference that has been counted before; -1 if it was written as null. Counts a
 * new one, and returns 0. */
static zend_long number_of(shim_packer *packer, zval *value)
{
    if (packer->numbers == NULL) {
        /* Never PHP's own state: another text may be in progress further out, or in another fiber. */
        BG(serialize_lock)++;
        packer->numbers = php_var_serialize_init();
        BG(serialize_lock)--;
    }
    struct php_serialize_data *numbers = packer->numbers;
    const zend_ulong key = (zend_ulong)(uintptr_t)Z_COUNTED_P(value);
    zval number, *found = zend_hash_index_find(&numbers->ht, key);
    if (found != NULL) {
        return Z_LVAL_P(found);
    }
    ZVAL_LONG(&number, ++numbers->n);
    zend_hash_index_add_new(&numbers->ht, key, &number);
    /* Referenced, so that its address is not reused meanwhile. */
    Z_ADDREF_P(value);
    zend_hash_index_add_new(&numbers->ht, key + 1, value);
    return 0;
}

static bool pack_reference(shim_packer *packer, const shim_place *place, zval *reference)
{
    const zend_long number = number_of(packer, reference);
    if (number > 0) {
        return shim_put_tag(packer, SHIM_TAG_VALUE_REF) && shim_put_varint(packer, (uint64_t)number);
    }
    return shim_put_tag(packer, SHIM_TAG_REFERENCE) && pack_at(packer, place, Z_REFVAL_P(reference));
}

/* ---- refusals ---- */

static bool refuse(const shim_place *place, const zend_object *object, const char *why)
{
    char *text;
    spprintf(&text, 0, "an object of the class %s %s", ZSTR_VAL(object->ce->name), why);
    (void)shim_place_refuse(place, text);
    efree(text);
    return false;
}

/* Refuses the object because of its class, if it is one that cannot be sent. */
static bool is_refused(const shim_place *place, const zend_object *object)
{
    const zend_class_entry *class = object->ce;
    if (class == zend_ce_closure) {
        (void)shim_place_refuse(place, "a closure cannot be sent to a task");
    } else if (class == zend_ce_generator) {
        (void)shim_place_refuse(place, "a generator cannot be sent to a task");
    } else if (class->ce_flags & ZEND_ACC_ANON_CLASS) {
        (void)shim_place_refuse(place, "an object of an anonymous class cannot be sent to a task");
    } else if (class == php_ce_incomplete_class) {
        (void)shim_place_refuse(place, "an object of a class that is not loaded cannot be sent to a task");
    } else if (zend_string_equals_literal_ci(class->name, "svc\\task")) {
        (void)shim_place_refuse(place, "a Svc\\Task cannot be sent to a task");
    } else if (class->ce_flags & ZEND_ACC_NOT_SERIALIZABLE) {
        (void)refuse(place, object, "cannot be sent to a task");
    } else {
        return false;
    }
    return true;
}

static bool refuse_failed(const shim_place *place, const zend_object *object)
{
    return refuse(place, object, "could not be serialized");
}

/* ---- objects ---- */

static bool put_class(shim_packer *packer, shim_tag tag, const zend_object *object)
{
    return shim_put_tag(packer, tag) && shim_put_text(packer, ZSTR_VAL(object->ce->name), ZSTR_LEN(object->ce->name));
}

/* The class has no data of the object: it is null on the other side. */
static bool put_lost(shim_packer *packer, const zend_object *object)
{
    zval *number = zend_hash_index_find(&packer->numbers->ht, (zend_ulong)(uintptr_t)object);
    ZVAL_LONG(number, -1);
    return shim_put_tag(packer, SHIM_TAG_NULLED);
}

/* Packs properties. The caller holds the table, so that script code that runs meanwhile changes a copy. */
static bool pack_table(shim_packer *packer, const shim_place *outer, shim_place_kind kind, zend_object *object,
                       HashTable *table)
{
    shim_place place = {.outer = outer, .kind = kind};
    zval *value;
    if (!put_class(packer, SHIM_TAG_OBJECT, object)) {
        return false;
    }
    ZEND_HASH_FOREACH_KEY_VAL_IND(table, place.index, place.key, value) {
        if (!shim_put_key(packer, place.key, place.index) || !pack_at(packer, &place, value)) {
            return false;
        }
    } ZEND_HASH_FOREACH_END();
    return shim_put_tag(packer, SHIM_TAG_END);
}

static bool pack_magic(shim_packer *packer, const shim_place *place, zend_object *object)
{
    zval result;
    BG(serialize_lock)++;
    zend_call_known_instance_method_with_0_params(object->ce->__serialize, object, &result);
    BG(serialize_lock)--;
    if (EG(exception) == NULL && Z_TYPE(result) != IS_ARRAY) {
        zend_type_error("%s::__serialize() must return an array", ZSTR_VAL(object->ce->name));
    }
    const bool is_packed = EG(exception) == NULL ? pack_table(packer, place, SHIM_PLACE_INSIDE, object, Z_ARRVAL(result))
                                                 : refuse_failed(place, object);
    zval_ptr_dtor(&result);
    return is_packed;
}

static bool pack_custom(shim_packer *packer, const shim_place *place, zend_object *object)
{
    unsigned char *text = NULL;
    size_t length = 0;
    bool is_packed;
    zval value;
    ZVAL_OBJ(&value, object);
    struct php_serialize_data *numbers = packer->numbers;
    const uint32_t before = numbers->n;
    /* Values that it serializes itself may occur elsewhere. */
    const shim_serialize_state former = shim_serialize_state_replace(numbers, NULL);
    const int result = object->ce->serialize(&value, &text, &length, (zend_serialize_data *)numbers);
    shim_serialize_state_restore(&former);
    if (EG(exception) != NULL || (result != SUCCESS && numbers->n != before)) {
        is_packed = refuse_failed(place, object);
    } else if (result == SUCCESS) {
        is_packed = put_class(packer, SHIM_TAG_CUSTOM, object) && shim_put_text(packer, (const char *)text, length);
    } else {
        is_packed = put_lost(packer, object);
    }
    if (text != NULL) {
        efree(text);
    }
    return is_packed;
}

/* Copies the property with this (mangled) name, if there is one. An uninitialized one is left out. */
static bool copy_property(HashTable *to, HashTable *from, zend_string *name, zend_object *object)
{
    zval *value = zend_hash_find(from, name);
    if (value != NULL && Z_TYPE_P(value) == IS_INDIRECT && Z_TYPE_P(Z_INDIRECT_P(value)) == IS_UNDEF) {
        return zend_get_typed_property_info_for_slot(object, Z_INDIRECT_P(value)) != NULL;
    }
    if (value == NULL) {
        return false;
    }
    ZVAL_DEINDIRECT(value);
    if (zend_hash_add(to, name, value) == NULL) {
        zend_error(E_WARNING, "A property is returned from %s::__sleep() multiple times", ZSTR_VAL(object->ce->name));
    } else {
        Z_TRY_ADDREF_P(value);
    }
    return true;
}

static void copy_named(HashTable *to, HashTable *from, zend_string *name, zend_object *object)
{
    const zend_string *class_name = object->ce->name;
    zend_string *private = zend_mangle_property_name(ZSTR_VAL(class_name), ZSTR_LEN(class_name), ZSTR_VAL(name),
                                                     ZSTR_LEN(name), false);
    zend_string *protected = zend_mangle_property_name("*", 1, ZSTR_VAL(name), ZSTR_LEN(name), false);
    if (!copy_property(to, from, name, object) && !copy_property(to, from, private, object) &&
        !copy_property(to, from, protected, object)) {
        zend_error(E_WARNING, "\"%s\" returned as member variable from __sleep() but does not exist", ZSTR_VAL(name));
    }
    zend_string_release(private);
    zend_string_release(protected);
}

static void warn_of_sleep(const zend_object *object)
{
    zend_error(E_WARNING, "%s::__sleep() should return an array only containing the names of instance-variables to serialize",
               ZSTR_VAL(object->ce->name));
}

/* Packs the properties that __sleep() names, with the rules and the warnings of serialize(). */
static bool pack_asleep(shim_packer *packer, const shim_place *place, zend_object *object, zend_function *sleep)
{
    zval names, value, *each;
    ZVAL_OBJ(&value, object);
    BG(serialize_lock)++;
    zend_call_known_instance_method(sleep, object, &names, 0, NULL);
    BG(serialize_lock)--;
    if (EG(exception) != NULL) {
        return refuse_failed(place, object);
    }
    if (Z_TYPE(names) != IS_ARRAY) {
        warn_of_sleep(object);
        zval_ptr_dtor(&names);
        return EG(exception) != NULL ? refuse_failed(place, object) : put_lost(packer, object);
    }
    HashTable *from = zend_get_properties_for(&value, ZEND_PROP_PURPOSE_SERIALIZE);
    HashTable *to = zend_new_array(zend_hash_num_elements(Z_ARRVAL(names)));
    ZEND_HASH_FOREACH_VAL_IND(Z_ARRVAL(names), each) {
        zend_string *held, *name = EG(exception) == NULL ? zval_try_get_tmp_string(each, &held) : NULL;
        if (name == NULL) {
            break;
        }
        if (!Z_ISREF_P(each) && Z_TYPE_P(each) != IS_STRING) {
            warn_of_sleep(object);
        }
        copy_named(to, from, name, object);
        zend_tmp_string_release(held);
    } ZEND_HASH_FOREACH_END();
    const bool is_packed = EG(exception) == NULL ? pack_table(packer, place, SHIM_PLACE_PROPERTY, object, to)
                                                 : refuse_failed(place, object);
    zend_release_properties(from);
    zend_array_release(to);
    zval_ptr_dtor(&names);
    return is_packed;
}

/* Whether the object has nothing but declared properties, all in their slots. */
static bool is_plain(zend_object *object)
{
    return object->properties == NULL && object->handlers->get_properties_for == NULL &&
           object->handlers->get_properties == zend_std_get_properties && !SHIM_IS_LAZY(object) &&
           !instanceof_function(object->ce, zend_ce_throwable);
}

/* Packs the object without building the table of properties. */
static bool pack_plain(shim_packer *packer, const shim_place *outer, zend_object *object)
{
    shim_place place = {.outer = outer, .kind = SHIM_PLACE_PROPERTY};
    if (!put_class(packer, SHIM_TAG_OBJECT, object)) {
        return false;
    }
    for (int i = 0; i < object->ce->default_properties_count; i++) {
        const zend_property_info *info = object->ce->properties_info_table[i];
        zval *value = info != NULL ? OBJ_PROP(object, info->offset) : NULL;
        if (value != NULL && Z_TYPE_P(value) != IS_UNDEF) {
            place.key = info->name;
            if (!shim_put_key(packer, info->name, 0) || !pack_at(packer, &place, value)) {
                return false;
            }
        }
    }
    return shim_put_tag(packer, SHIM_TAG_END);
}

static bool pack_properties(shim_packer *packer, const shim_place *place, zend_object *object)
{
    zval value;
    ZVAL_OBJ(&value, object);
    /* Initializes a lazy object, unless its class prevents it. */
    HashTable *properties = zend_get_properties_for(&value, ZEND_PROP_PURPOSE_SERIALIZE);
    if (EG(exception) != NULL) {
        zend_release_properties(properties);
        return refuse_failed(place, object);
    }
    if (properties != NULL && instanceof_function(object->ce, zend_ce_throwable)) {
        HashTable *bare = shim_exception_without_arguments(properties);
        zend_release_properties(properties);
        properties = bare;
    }
    const bool is_packed = pack_table(packer, place, SHIM_PLACE_PROPERTY, object,
                                      properties != NULL ? properties : (HashTable *)&zend_empty_array);
    zend_release_properties(properties);
    return is_packed;
}

static bool pack_new(shim_packer *packer, const shim_place *place, zend_object *object)
{
    zend_class_entry *class = object->ce;
    zval *sleep = zend_hash_find_known_hash(&class->function_table, ZSTR_KNOWN(ZEND_STR_SLEEP));
    if (class->__serialize != NULL) {
        return pack_magic(packer, place, object);
    }
    if (class->serialize != NULL) {
        return pack_custom(packer, place, object);
    }
    if (sleep != NULL) {
        return pack_asleep(packer, place, object, Z_FUNC_P(sleep));
    }
    return is_plain(object) ? pack_plain(packer, place, object) : pack_properties(packer, place, object);
}

static bool put_case(shim_packer *packer, zend_object *object)
{
    const zend_string *name = Z_STR_P(zend_enum_fetch_case_name(object));
    return put_class(packer, SHIM_TAG_CASE, object) && shim_put_text(packer, ZSTR_VAL(name), ZSTR_LEN(name));
}

static bool pack_object(shim_packer *packer, const shim_place *place, zend_object *object)
{
    zval value;
    ZVAL_OBJ(&value, object);
    if (object->ce->ce_flags & ZEND_ACC_ENUM) {
        return put_case(packer, object);
    }
    if (is_refused(place, object)) {
        return false;
    }
    if (shim_stack_is_short()) {
        return shim_place_refuse_whole(place, "the value is nested too deeply");
    }
    const zend_long number = number_of(packer, &value);
    if (number < 0) {
        return shim_put_tag(packer, SHIM_TAG_NULL);
    }
    if (number > 0) {
        /* PHP counts each occurrence of an object. */
        packer->numbers->n++;
        return shim_put_tag(packer, SHIM_TAG_OBJECT_REF) && shim_put_varint(packer, (uint64_t)number);
    }
    GC_ADDREF(object);
    packer->depth++;
    const bool is_packed = pack_new(packer, place, object);
    packer->depth--;
    OBJ_RELEASE(object);
    return is_packed;
}

/* ---- arrays and other values ---- */

static bool pack_packed(shim_packer *packer, shim_place *place, HashTable *array)
{
    for (uint32_t i = 0; i < array->nNumUsed; i++) {
        zval *value = &array->arPacked[i];
        place->index = i;
        if (!(Z_TYPE_P(value) == IS_UNDEF ? shim_put_tag(packer, SHIM_TAG_HOLE) : pack_at(packer, place, value))) {
            return false;
        }
    }
    return true;
}

static bool pack_hash(shim_packer *packer, shim_place *place, HashTable *array)
{
    zval *value;
    ZEND_HASH_MAP_FOREACH_KEY_VAL_IND(array, place->index, place->key, value) {
        if (!shim_put_key(packer, place->key, place->index) || !pack_at(packer, place, value)) {
            return false;
        }
    } ZEND_HASH_FOREACH_END();
    return true;
}

/* `is_behind_reference`: an array can only contain itself through a reference. */
static bool pack_array(shim_packer *packer, const shim_place *outer, HashTable *array, bool is_behind_reference)
{
    const bool is_list = HT_IS_PACKED(array), is_counted = !(GC_FLAGS(array) & GC_IMMUTABLE);
    const zend_long next = array->nNextFreeElement;
    if (array->nNumOfElements == 0 && next == ZEND_LONG_MIN) {
        return shim_put_tag(packer, SHIM_TAG_EMPTY_ARRAY);
    }
    if (is_behind_reference && shim_place_is_within(outer, array)) {
        return shim_place_refuse(outer, "an array that contains itself cannot be sent to a task");
    }
    if (shim_stack_is_short()) {
        return shim_place_refuse_whole(outer, "the value is nested too deeply");
    }
    if (!shim_put_tag(packer, is_list ? SHIM_TAG_PACKED : SHIM_TAG_HASH) || !shim_put(packer, &next, sizeof(next)) ||
        !shim_put_varint(packer, is_list ? array->nNumUsed : zend_array_count(array))) {
        return false;
    }
    shim_place place = {.outer = outer, .kind = SHIM_PLACE_ELEMENT, .array = array};
    /* Script code that runs meanwhile changes a copy. */
    if (is_counted) {
        GC_ADDREF(array);
    }
    const bool is_packed = (is_list ? pack_packed : pack_hash)(packer, &place, array);
    if (is_counted) {
        zend_array_release(array);
    }
    return is_packed;
}

static bool pack_at(shim_packer *packer, const shim_place *place, zval *value)
{
    const bool is_reference = Z_ISREF_P(value);
    if (is_reference && packer->depth > 0 && Z_REFCOUNT_P(value) > 1) {
        return pack_reference(packer, place, value);
    }
    ZVAL_DEREF(value);
    switch (Z_TYPE_P(value)) {
    case IS_FALSE:
        return shim_put_tag(packer, SHIM_TAG_FALSE);
    case IS_TRUE:
        return shim_put_tag(packer, SHIM_TAG_TRUE);
    case IS_LONG:
        return shim_put_key(packer, NULL, (zend_ulong)Z_LVAL_P(value));
    case IS_DOUBLE:
        return shim_put_eight(packer, SHIM_TAG_FLOAT, &Z_DVAL_P(value));
    case IS_STRING:
        return shim_put_key(packer, Z_STR_P(value), 0);
    case IS_ARRAY:
        return pack_array(packer, place, Z_ARRVAL_P(value), is_reference);
    case IS_OBJECT:
        return pack_object(packer, place, Z_OBJ_P(value));
    case IS_RESOURCE:
        return shim_place_refuse(place, "a resource cannot be sent to a task");
    default:
        return shim_put_tag(packer, SHIM_TAG_NULL);
    }
}

bool shim_pack_value(shim_packer *packer, const char *name, zval *value)
{
    const shim_place place = {.kind = SHIM_PLACE_ROOT, .name = name};
    return pack_at(packer, &place, value) || (EG(exception) == NULL && shim_packer_refuse(packer, &place));
}
