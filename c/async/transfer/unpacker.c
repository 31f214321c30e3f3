/* One transfer on its way in.
 *
 * Promises: whatever the bytes are, nothing outside of them is read, and no more memory is allocated than they can
 * fill. */
#include "async/transfer/exceptions.h"
#include "async/transfer/object_reader.h"
#include "async/transfer/stack.h"
#include "async/transfer/unpacker.h"

void shim_unpacker_begin_view(shim_unpacker *unpacker, shim_view bytes)
{
    *unpacker = (shim_unpacker){.in = {.at = bytes.bytes, .end = bytes.bytes + bytes.length}};
}

void shim_unpacker_begin(shim_unpacker *unpacker, const shim_parcel *parcel)
{
    shim_unpacker_begin_view(unpacker, (shim_view){.bytes = parcel->bytes, .length = parcel->length});
}

/* ---- values ---- */

static bool unpack(shim_unpacker *unpacker, zval *value);

static bool unpack_tagged(shim_unpacker *unpacker, unsigned char tag, zval *value);

/* Reads the head of an array: each of its elements takes at least one byte. */
static bool get_array_head(shim_unpacker *unpacker, zend_long *next, uint32_t *count)
{
    uint64_t number;
    if (!shim_reader_get(&unpacker->in, next, sizeof(*next)) || !shim_reader_get_varint(&unpacker->in, &number)) {
        return false;
    }
    if (number > shim_reader_left(&unpacker->in) || number >= HT_MAX_SIZE) {
        return shim_reader_fail();
    }
    *count = (uint32_t)number;
    return true;
}

static bool fill_packed(shim_unpacker *unpacker, HashTable *array, uint32_t count)
{
    zend_hash_real_init_packed(array);
    for (uint32_t i = 0; i < count; i++) {
        unsigned char tag;
        zval *value = &array->arPacked[i];
        ZVAL_UNDEF(value);
        array->nNumUsed = i + 1;
        if (!shim_reader_get_byte(&unpacker->in, &tag)) {
            return false;
        }
        if (tag != SHIM_TAG_HOLE) {
            if (!unpack_tagged(unpacker, tag, value)) {
                return false;
            }
            array->nNumOfElements++;
        }
    }
    return true;
}

static bool fill_hash(shim_unpacker *unpacker, HashTable *array, uint32_t count)
{
    zend_hash_real_init_mixed(array);
    for (uint32_t i = 0; i < count; i++) {
        unsigned char tag;
        zval key, value;
        shim_view name = {0};
        if (!shim_reader_get_byte(&unpacker->in, &tag)) {
            return false;
        }
        if (tag == SHIM_TAG_STRING) {
            if (!shim_reader_get_view(&unpacker->in, &name) || !unpack(unpacker, &value)) {
                return false;
            }
            zend_string *string = zend_string_init_existing_interned(name.bytes, name.length, false);
            zend_hash_update(array, string, &value);
            zend_string_release(string);
            continue;
        }
        if (tag != SHIM_TAG_INT && tag != SHIM_TAG_SMALL) {
            return shim_reader_fail();
        }
        if (!unpack_tagged(unpacker, tag, &key) || !unpack(unpacker, &value)) {
            return false;
        }
        zend_hash_index_update(array, (zend_ulong)Z_LVAL(key), &value);
    }
    return true;
}

static bool unpack_array(shim_unpacker *unpacker, unsigned char tag, zval *value)
{
    zend_long next;
    uint32_t count;
    if (!get_array_head(unpacker, &next, &count)) {
        return false;
    }
    if (shim_stack_is_short()) {
        shim_transfer_throw("The value is nested too deeply");
        return false;
    }
    HashTable *array = zend_new_array(count);
    const bool is_full = tag == SHIM_TAG_PACKED ? fill_packed(unpacker, array, count) : fill_hash(unpacker, array, count);
    if (!is_full) {
        zend_array_destroy(array);
        return false;
    }
    array->nNextFreeElement = next;
    ZVAL_ARR(value, array);
    return true;
}

static bool unpack_case(shim_unpacker *unpacker, zval *value)
{
    shim_view class_name, name;
    if (!shim_reader_get_view(&unpacker->in, &class_name) || !shim_reader_get_view(&unpacker->in, &name)) {
        return false;
    }
    zend_object *object = shim_object_load_case(class_name, name);
    if (object == NULL) {
        return false;
    }
    ZVAL_OBJ_COPY(value, object);
    return true;
}

static bool unpack_scalar(shim_unpacker *unpacker, unsigned char tag, zval *value)
{
    unsigned char small;
    shim_view text;
    switch (tag) {
        case SHIM_TAG_INT:
            Z_TYPE_INFO_P(value) = IS_LONG;
            return shim_reader_get(&unpacker->in, &Z_LVAL_P(value), sizeof(zend_long));
        case SHIM_TAG_FLOAT:
            Z_TYPE_INFO_P(value) = IS_DOUBLE;
            return shim_reader_get(&unpacker->in, &Z_DVAL_P(value), sizeof(double));
        case SHIM_TAG_SMALL:
            if (!shim_reader_get_byte(&unpacker->in, &small)) {
                return false;
            }
            ZVAL_LONG(value, small);
            return true;
        default:
            if (!shim_reader_get_view(&unpacker->in, &text)) {
                return false;
            }
            ZVAL_STRINGL_FAST(value, text.bytes, text.length);
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
        case SHIM_TAG_CASE:
            is_whole = unpack_case(unpacker, value);
            break;
        case SHIM_TAG_OBJECT:
            is_whole = shim_object_read(&unpacker->in, &unpacker->objects, value);
            break;
        default:
            is_whole = shim_reader_fail();
            break;
    }
    if (!is_whole) {
        ZVAL_UNDEF(value);
    }
    return is_whole;
}

static bool unpack(shim_unpacker *unpacker, zval *value)
{
    unsigned char tag;
    ZVAL_UNDEF(value);
    return shim_reader_get_byte(&unpacker->in, &tag) && unpack_tagged(unpacker, tag, value);
}

bool shim_unpack_value(shim_unpacker *unpacker, zval *value)
{
    return unpack(unpacker, value);
}

/* ---- between values ---- */

static bool get_tag(shim_unpacker *unpacker, shim_tag expected)
{
    unsigned char tag;
    return shim_reader_get_byte(&unpacker->in, &tag) && (tag == expected || shim_reader_fail());
}

bool shim_unpack_number(shim_unpacker *unpacker, uint64_t *number)
{
    return get_tag(unpacker, SHIM_TAG_NUMBER) && shim_reader_get(&unpacker->in, number, sizeof(*number));
}

bool shim_unpack_bytes(shim_unpacker *unpacker, shim_view *bytes)
{
    return get_tag(unpacker, SHIM_TAG_BYTES) && shim_reader_get_view(&unpacker->in, bytes);
}

bool shim_unpacker_end(shim_unpacker *unpacker)
{
    php_unserialize_data_t objects = unpacker->objects;
    unpacker->objects = NULL;
    return objects != NULL ? shim_objects_end(objects) : EG(exception) == NULL;
}
