/* Values on the receiving side. No more memory is allocated than the bytes can fill. Objects are made as by
 * unserialize(), but never without their class. */
#include "async/transfer/transfer.h"

#include <zend_enum.h>
#include <zend_interfaces.h>

static bool unpack_tagged(shim_unpacker *unpacker, unsigned char tag, zval *value);

/* The part of a name that a message repeats. */
enum { SHOWN_MAX = 200 };

static int shown(shim_view name)
{
    return (int)MIN(name.length, SHOWN_MAX);
}

static bool fail_object(void)
{
    return shim_transfer_throw("An object cannot be unserialized in the task's thread");
}

/* Reads the name of a class and loads it. May run autoloaders. */
static bool get_class(shim_unpacker *unpacker, zend_class_entry **class)
{
    shim_view name;
    if (!shim_get_view(unpacker, &name)) {
        return false;
    }
    zend_string *string = zend_string_init(name.bytes, name.length, false);
    *class = zend_lookup_class(string);
    zend_string_release(string);
    return (*class != NULL && EG(exception) == NULL) ||
           shim_transfer_throw("class \"%.*s\" cannot be loaded in the task's thread", shown(name), name.bytes);
}

static bool unpack_case(shim_unpacker *unpacker, zval *value)
{
    zend_class_entry *class;
    shim_view name;
    if (!get_class(unpacker, &class) || !shim_get_view(unpacker, &name)) {
        return false;
    }
    const zend_class_constant *constant = zend_hash_str_find_ptr(CE_CONSTANTS_TABLE(class), name.bytes, name.length);
    if (!(class->ce_flags & ZEND_ACC_ENUM) || constant == NULL ||
        !(ZEND_CLASS_CONST_FLAGS(constant) & ZEND_CLASS_CONST_IS_CASE)) {
        return shim_transfer_throw("enum \"%s\" has no case \"%.*s\" in the task's thread", ZSTR_VAL(class->name),
                                   shown(name), name.bytes);
    }
    zend_string *string = zend_string_init(name.bytes, name.length, false);
    ZVAL_OBJ_COPY(value, zend_enum_get_case(class, string));
    zend_string_release(string);
    return true;
}

/* ---- numbers ---- */

/* Has PHP's unserializer read `text` into a place that stays valid: it counts the place, except for `R:`. Returns NULL
 * if the text refers to nothing. */
static zval *count_as(shim_unpacker *unpacker, const char *text)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + strlen(text);
    if (unpacker->objects == NULL) {
        /* Never PHP's own state: another text may be read further out, or in another fiber. */
        BG(serialize_lock)++;
        unpacker->objects = php_var_unserialize_init();
        BG(serialize_lock)--;
        php_var_unserialize_set_max_depth(unpacker->objects, 0);
    }
    zval *place = var_tmp_var(&unpacker->objects);
    return php_var_unserialize(place, &at, end, &unpacker->objects) ? place : NULL;
}

static bool unpack_numbered(shim_unpacker *unpacker, char kind, zval *value)
{
    uint64_t number;
    char text[32];
    if (!shim_get_varint(unpacker, &number)) {
        return false;
    }
    snprintf(text, sizeof(text), "%c:%" PRIu64 ";", kind, number);
    const zval *place = count_as(unpacker, text);
    if (place == NULL) {
        return shim_unpack_fail();
    }
    ZVAL_COPY(value, place);
    return true;
}

static bool unpack_reference(shim_unpacker *unpacker, zval *value)
{
    zval inner;
    ZVAL_NEW_EMPTY_REF(value);
    ZVAL_NULL(Z_REFVAL_P(value));
    ZVAL_COPY(count_as(unpacker, "N;"), value);
    if (!shim_unpack_value(unpacker, &inner)) {
        zval_ptr_dtor(value);
        return false;
    }
    if (Z_ISREF(inner)) {
        zval_ptr_dtor(&inner);
        zval_ptr_dtor(value);
        return shim_unpack_fail();
    }
    ZVAL_COPY_VALUE(Z_REFVAL_P(value), &inner);
    return true;
}

/* ---- objects ---- */

/* Returns the slot of a declared property, also if it has become more or less visible; NULL if there is none. */
static zval *slot_of(zend_object *object, zend_string *name, zend_property_info **info)
{
    const char *class_name, *own;
    size_t length;
    if (zend_unmangle_property_name_ex(name, &class_name, &own, &length) != SUCCESS) {
        return NULL;
    }
    *info = zend_hash_str_find_ptr(&object->ce->properties_info, own, length);
    const bool is_same = *info != NULL &&
                         (zend_string_equals((*info)->name, name) || class_name == NULL || strcmp(class_name, "*") == 0 ||
                          strcasecmp(class_name, ZSTR_VAL(object->ce->name)) == 0);
    if (is_same && ((*info)->flags & (ZEND_ACC_STATIC | SHIM_ACC_VIRTUAL)) == 0) {
        return OBJ_PROP(object, (*info)->offset);
    }
    /* A private property of a parent, or a dynamic one. */
    zval *slot = zend_hash_find(object->handlers->get_properties(object), name);
    slot = slot != NULL && Z_TYPE_P(slot) == IS_INDIRECT ? Z_INDIRECT_P(slot) : NULL;
    *info = slot != NULL ? zend_get_typed_property_info_for_slot(object, slot) : NULL;
    return slot;
}

static bool add_dynamic(zend_object *object, zend_string *name, zval *value)
{
    const uint32_t flags = object->ce->ce_flags;
    if ((flags & ZEND_ACC_NO_DYNAMIC_PROPERTIES) != 0) {
        zend_throw_error(NULL, "Cannot create dynamic property %s::$%s", ZSTR_VAL(object->ce->name),
                         zend_get_unmangled_property_name(name));
    } else if ((flags & ZEND_ACC_ALLOW_DYNAMIC_PROPERTIES) == 0) {
        zend_error(E_DEPRECATED, "Creation of dynamic property %s::$%s is deprecated", ZSTR_VAL(object->ce->name),
                   zend_get_unmangled_property_name(name));
    }
    if (EG(exception) != NULL) {
        return fail_object();
    }
    Z_TRY_ADDREF_P(value);
    zend_hash_update(object->handlers->get_properties(object), name, value);
    return true;
}

/* Sets a property to a copy of the value. */
static bool set_property(zend_object *object, zend_string *name, zval *value)
{
    zend_property_info *info = NULL;
    zval *slot = slot_of(object, name, &info);
    if (slot == NULL) {
        return add_dynamic(object, name, value);
    }
    info = info != NULL && ZEND_TYPE_IS_SET(info->type) ? info : NULL;
    if (info != NULL && !zend_verify_prop_assignable_by_ref(info, value, true)) {
        return fail_object();
    }
    if (info != NULL && Z_ISREF_P(slot)) {
        ZEND_REF_DEL_TYPE_SOURCE(Z_REF_P(slot), info);
    }
    zval_ptr_dtor(slot);
    ZVAL_COPY(slot, value);
    if (info != NULL && Z_ISREF_P(slot)) {
        ZEND_REF_ADD_TYPE_SOURCE(Z_REF_P(slot), info);
    }
    return true;
}

/* Reads a value and its key, whose tag has been read. The caller releases both. */
static bool get_pair(shim_unpacker *unpacker, unsigned char tag, zend_string **name, zend_ulong *index, zval *value)
{
    if (!shim_get_key(unpacker, tag, name, index)) {
        return false;
    }
    if (!shim_unpack_value(unpacker, value)) {
        if (*name != NULL) {
            zend_string_release(*name);
        }
        return false;
    }
    return true;
}

/* Reads keys and values into `data`, or if that is NULL, into the properties of the object. */
static bool fill(shim_unpacker *unpacker, zend_object *object, HashTable *data)
{
    bool is_whole = true;
    unsigned char tag;
    while (is_whole && (is_whole = shim_get_byte(unpacker, &tag)) && tag != SHIM_TAG_END) {
        zend_string *name;
        zend_ulong index = 0;
        zval value;
        if (!get_pair(unpacker, tag, &name, &index, &value)) {
            return false;
        }
        name = name != NULL ? name : zend_long_to_str((zend_long)index);
        if (data != NULL) {
            zend_symtable_update(data, name, &value);
        } else {
            is_whole = set_property(object, name, &value);
            zval_ptr_dtor(&value);
        }
        zend_string_release(name);
    }
    return is_whole;
}

/* Remembers what shim_unpacker_end() has to call. */
static void complete_later(shim_unpacker *unpacker, zval *object, zval *data)
{
    if (unpacker->incomplete == NULL) {
        unpacker->incomplete = zend_new_array(8);
    }
    Z_ADDREF_P(object);
    zend_hash_next_index_insert_new(unpacker->incomplete, object);
    zend_hash_next_index_insert_new(unpacker->incomplete, data);
}

static bool fill_object(shim_unpacker *unpacker, zval *object)
{
    const zend_class_entry *class = Z_OBJCE_P(object);
    const bool has_data = class->__unserialize != NULL;
    zval data;
    ZVAL_NULL(&data);
    if (has_data) {
        array_init(&data);
    }
    if (!fill(unpacker, Z_OBJ_P(object), has_data ? Z_ARRVAL(data) : NULL)) {
        zval_ptr_dtor(&data);
        return false;
    }
    if (has_data || zend_hash_exists(&class->function_table, ZSTR_KNOWN(ZEND_STR_WAKEUP))) {
        complete_later(unpacker, object, &data);
    }
    return true;
}

static bool unpack_plain(shim_unpacker *unpacker, zval *value)
{
    zend_class_entry *class;
    if (!get_class(unpacker, &class)) {
        return false;
    }
    if ((class->ce_flags & ZEND_ACC_NOT_SERIALIZABLE) != 0 || (class->serialize != NULL && class->__unserialize == NULL)) {
        return fail_object();
    }
    if (shim_stack_is_short()) {
        return shim_transfer_throw("The value is nested too deeply");
    }
    if (object_init_ex(value, class) != SUCCESS) {
        return fail_object();
    }
    ZVAL_COPY(count_as(unpacker, "N;"), value);
    if (!fill_object(unpacker, value)) {
        GC_ADD_FLAGS(Z_OBJ_P(value), IS_OBJ_DESTRUCTOR_CALLED);
        zval_ptr_dtor(value);
        return false;
    }
    return true;
}

static bool unpack_custom(shim_unpacker *unpacker, zval *value)
{
    zend_class_entry *class;
    shim_view view;
    if (!get_class(unpacker, &class) || !shim_get_view(unpacker, &view)) {
        return false;
    }
    if ((class->ce_flags & ZEND_ACC_NOT_SERIALIZABLE) != 0 || class->unserialize == NULL) {
        return fail_object();
    }
    /* The place is counted before the object's parts. PHP's unserializer reads on while it finds digits: the copy ends
     * with a zero. */
    zval *place = count_as(unpacker, "N;");
    zend_string *text = zend_string_init(view.bytes, view.length, false);
    const shim_serialize_state former = shim_serialize_state_replace(NULL, unpacker->objects);
    const int result = class->unserialize(place, class, (const unsigned char *)ZSTR_VAL(text), ZSTR_LEN(text),
                                          (zend_unserialize_data *)&unpacker->objects);
    shim_serialize_state_restore(&former);
    zend_string_release(text);
    if (EG(exception) != NULL || result != SUCCESS) {
        return fail_object();
    }
    ZVAL_COPY_DEREF(value, place);
    return true;
}

static bool unpack_object(shim_unpacker *unpacker, unsigned char tag, zval *value)
{
    switch (tag) {
    case SHIM_TAG_CASE:
        return unpack_case(unpacker, value);
    case SHIM_TAG_OBJECT:
        return unpack_plain(unpacker, value);
    case SHIM_TAG_CUSTOM:
        return unpack_custom(unpacker, value);
    case SHIM_TAG_NULLED:
        (void)count_as(unpacker, "N;");
        ZVAL_NULL(value);
        return true;
    case SHIM_TAG_OBJECT_REF:
        return unpack_numbered(unpacker, 'r', value);
    case SHIM_TAG_REFERENCE:
        return unpack_reference(unpacker, value);
    case SHIM_TAG_VALUE_REF:
        return unpack_numbered(unpacker, 'R', value);
    default:
        return shim_unpack_fail();
    }
}

/* ---- arrays and other values ---- */

static bool fill_packed(shim_unpacker *unpacker, HashTable *array, uint32_t count)
{
    zend_hash_real_init_packed(array);
    for (uint32_t i = 0; i < count; i++) {
        unsigned char tag;
        zval *value = &array->arPacked[i];
        ZVAL_UNDEF(value);
        array->nNumUsed = i + 1;
        if (!shim_get_byte(unpacker, &tag) || (tag != SHIM_TAG_HOLE && !unpack_tagged(unpacker, tag, value))) {
            return false;
        }
        array->nNumOfElements += tag != SHIM_TAG_HOLE;
    }
    return true;
}

static bool fill_hash(shim_unpacker *unpacker, HashTable *array, uint32_t count)
{
    zend_hash_real_init_mixed(array);
    for (uint32_t i = 0; i < count; i++) {
        unsigned char tag;
        zend_string *name;
        zend_ulong index = 0;
        zval value;
        if (!shim_get_byte(unpacker, &tag) || !get_pair(unpacker, tag, &name, &index, &value)) {
            return false;
        }
        if (name != NULL) {
            zend_hash_update(array, name, &value);
            zend_string_release(name);
        } else {
            zend_hash_index_update(array, index, &value);
        }
    }
    return true;
}

static bool unpack_array(shim_unpacker *unpacker, unsigned char tag, zval *value)
{
    zend_long next;
    uint64_t count;
    if (!shim_get(unpacker, &next, sizeof(next)) || !shim_get_varint(unpacker, &count)) {
        return false;
    }
    /* Each element takes at least one byte. */
    if (count > shim_left(unpacker) || count >= HT_MAX_SIZE) {
        return shim_unpack_fail();
    }
    if (shim_stack_is_short()) {
        return shim_transfer_throw("The value is nested too deeply");
    }
    HashTable *array = zend_new_array((uint32_t)count);
    if (!(tag == SHIM_TAG_PACKED ? fill_packed : fill_hash)(unpacker, array, (uint32_t)count)) {
        zend_array_destroy(array);
        return false;
    }
    array->nNextFreeElement = next;
    ZVAL_ARR(value, array);
    return true;
}

/* Reads a number or a string. */
static bool unpack_scalar(shim_unpacker *unpacker, unsigned char tag, zval *value)
{
    shim_view text;
    zend_string *none;
    zend_ulong number = 0;
    switch (tag) {
    case SHIM_TAG_STRING:
        if (!shim_get_view(unpacker, &text)) {
            return false;
        }
        ZVAL_STRINGL_FAST(value, text.bytes, text.length);
        return true;
    case SHIM_TAG_FLOAT:
        Z_TYPE_INFO_P(value) = IS_DOUBLE;
        return shim_get(unpacker, &Z_DVAL_P(value), sizeof(double));
    default:
        if (!shim_get_key(unpacker, tag, &none, &number)) {
            return false;
        }
        ZVAL_LONG(value, (zend_long)number);
        return true;
    }
}

static bool unpack_tagged(shim_unpacker *unpacker, unsigned char tag, zval *value)
{
    bool is_whole = true;
    switch (tag) {
    case SHIM_TAG_NULL:
        ZVAL_NULL(value);
        break;
    case SHIM_TAG_FALSE:
        ZVAL_FALSE(value);
        break;
    case SHIM_TAG_TRUE:
        ZVAL_TRUE(value);
        break;
    case SHIM_TAG_INT:
    case SHIM_TAG_FLOAT:
    case SHIM_TAG_SMALL:
    case SHIM_TAG_STRING:
        is_whole = unpack_scalar(unpacker, tag, value);
        break;
    case SHIM_TAG_EMPTY_ARRAY:
        ZVAL_EMPTY_ARRAY(value);
        break;
    case SHIM_TAG_PACKED:
    case SHIM_TAG_HASH:
        is_whole = unpack_array(unpacker, tag, value);
        break;
    default:
        is_whole = unpack_object(unpacker, tag, value);
        break;
    }
    if (!is_whole) {
        ZVAL_UNDEF(value);
    }
    return is_whole;
}

bool shim_unpack_value(shim_unpacker *unpacker, zval *value)
{
    unsigned char tag;
    ZVAL_UNDEF(value);
    return shim_get_byte(unpacker, &tag) && unpack_tagged(unpacker, tag, value);
}

/* ---- the end ---- */

static void complete(zval *object, zval *data)
{
    zval *wakeup = zend_hash_find_known_hash(&Z_OBJCE_P(object)->function_table, ZSTR_KNOWN(ZEND_STR_WAKEUP));
    zend_function *function = Z_TYPE_P(data) == IS_ARRAY ? Z_OBJCE_P(object)->__unserialize : Z_FUNC_P(wakeup);
    BG(serialize_lock)++;
    zend_call_known_function(function, Z_OBJ_P(object), Z_OBJCE_P(object), NULL, Z_TYPE_P(data) == IS_ARRAY, data, NULL);
    BG(serialize_lock)--;
}

/* Calls what completes the objects, in the order in which they became whole. After a failure, the others get no
 * destructor. */
static void complete_all(HashTable *incomplete)
{
    const uint32_t count = zend_hash_num_elements(incomplete);
    for (uint32_t i = 0; i < count; i += 2) {
        zval *object = zend_hash_index_find(incomplete, i);
        if (EG(exception) == NULL) {
            complete(object, zend_hash_index_find(incomplete, i + 1));
        }
        if (EG(exception) != NULL) {
            GC_ADD_FLAGS(Z_OBJ_P(object), IS_OBJ_DESTRUCTOR_CALLED);
        }
    }
    zend_array_release(incomplete);
}

bool shim_unpacker_end(shim_unpacker *unpacker)
{
    const bool was_well = EG(exception) == NULL;
    php_unserialize_data_t objects = unpacker->objects;
    HashTable *incomplete = unpacker->incomplete;
    unpacker->objects = NULL;
    unpacker->incomplete = NULL;
    if (incomplete != NULL) {
        complete_all(incomplete);
    }
    if (objects != NULL) {
        BG(serialize_lock)++;
        php_var_unserialize_destroy(objects);
        BG(serialize_lock)--;
    }
    if (was_well && EG(exception) != NULL) {
        return fail_object();
    }
    return EG(exception) == NULL;
}
