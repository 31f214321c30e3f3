/* One transfer on its way in. Whatever the bytes are, nothing outside of them is read, and no more memory is allocated
 * than they can fill. */
#include "async/transfer/transfer.h"

void shim_unpacker_begin_view(shim_unpacker *unpacker, shim_view bytes)
{
    *unpacker = (shim_unpacker){.at = bytes.bytes, .end = bytes.bytes + bytes.length};
}

void shim_unpacker_begin(shim_unpacker *unpacker, const shim_parcel *parcel)
{
    shim_unpacker_begin_view(unpacker, (shim_view){.bytes = parcel->bytes, .length = parcel->length});
}

void shim_parcel_free(shim_parcel *parcel)
{
    free(parcel);
}

/* ---- bytes ---- */

void shim_unpack_throw(void)
{
    shim_transfer_throw("The values of a task are damaged");
}

bool shim_get_varint(shim_unpacker *unpacker, uint64_t *number)
{
    *number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned char byte;
        if (!shim_get_byte(unpacker, &byte)) {
            return false;
        }
        *number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return shim_unpack_fail();
}

bool shim_get_view(shim_unpacker *unpacker, shim_view *view)
{
    uint64_t length;
    if (!shim_get_varint(unpacker, &length)) {
        return false;
    }
    if (length > shim_left(unpacker)) {
        return shim_unpack_fail();
    }
    *view = (shim_view){.bytes = unpacker->at, .length = (size_t)length};
    unpacker->at += length;
    return true;
}

/* ---- values ---- */

static bool unpack_tagged(shim_unpacker *unpacker, unsigned char tag, zval *value);

bool shim_get_key(shim_unpacker *unpacker, unsigned char tag, zend_string **name, zend_ulong *index)
{
    shim_view view;
    zval key;
    *name = NULL;
    switch (tag) {
        case SHIM_TAG_STRING:
            if (!shim_get_view(unpacker, &view)) {
                return false;
            }
            *name = zend_string_init_existing_interned(view.bytes, view.length, false);
            return true;
        case SHIM_TAG_INT:
        case SHIM_TAG_SMALL:
            if (!unpack_tagged(unpacker, tag, &key)) {
                return false;
            }
            *index = (zend_ulong)Z_LVAL(key);
            return true;
        default:
            return shim_unpack_fail();
    }
}

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
        if (!shim_get_byte(unpacker, &tag) || !shim_get_key(unpacker, tag, &name, &index)) {
            return false;
        }
        const bool is_whole = shim_unpack_value(unpacker, &value);
        if (is_whole && name != NULL) {
            zend_hash_update(array, name, &value);
        } else if (is_whole) {
            zend_hash_index_update(array, index, &value);
        }
        if (name != NULL) {
            zend_string_release(name);
        }
        if (!is_whole) {
            return false;
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
        shim_transfer_throw("The value is nested too deeply");
        return false;
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

static bool unpack_scalar(shim_unpacker *unpacker, unsigned char tag, zval *value)
{
    unsigned char small;
    shim_view text;
    switch (tag) {
        case SHIM_TAG_INT:
            Z_TYPE_INFO_P(value) = IS_LONG;
            return shim_get(unpacker, &Z_LVAL_P(value), sizeof(zend_long));
        case SHIM_TAG_FLOAT:
            Z_TYPE_INFO_P(value) = IS_DOUBLE;
            return shim_get(unpacker, &Z_DVAL_P(value), sizeof(double));
        case SHIM_TAG_SMALL:
            if (!shim_get_byte(unpacker, &small)) {
                return false;
            }
            ZVAL_LONG(value, small);
            return true;
        default:
            if (!shim_get_view(unpacker, &text)) {
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
        default:
            is_whole = shim_unpack_object(unpacker, tag, value);
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

/* ---- between values ---- */

static bool get_tag(shim_unpacker *unpacker, shim_tag expected)
{
    unsigned char tag;
    return shim_get_byte(unpacker, &tag) && (tag == expected || shim_unpack_fail());
}

bool shim_unpack_number(shim_unpacker *unpacker, uint64_t *number)
{
    return get_tag(unpacker, SHIM_TAG_NUMBER) && shim_get(unpacker, number, sizeof(*number));
}

bool shim_unpack_bytes(shim_unpacker *unpacker, shim_view *bytes)
{
    return get_tag(unpacker, SHIM_TAG_BYTES) && shim_get_view(unpacker, bytes);
}
