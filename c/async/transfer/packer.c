/* One transfer on its way out: values, and numbers and bytes between them. */
#include "async/transfer/transfer.h"

void shim_packer_begin(shim_packer *packer, size_t bytes_max)
{
    *packer = (shim_packer){.bytes_max = bytes_max};
}

void shim_packer_abandon(shim_packer *packer)
{
    shim_pack_objects_end(packer);
    if (packer->bytes != NULL) {
        efree(packer->bytes);
    }
    packer->bytes = NULL;
}

/* ---- bytes ---- */

bool shim_packer_grow(shim_packer *packer, size_t size)
{
    enum { ROOM_AT_FIRST = 256 };
    /* The length never exceeds the bound, so no sum below overflows. */
    if (size > packer->bytes_max - packer->length) {
        packer->is_full = true;
        return false;
    }
    const size_t needed = packer->length + size;
    size_t room = packer->room > 0 ? packer->room : ROOM_AT_FIRST;
    while (room < needed) {
        room = room <= SIZE_MAX / 2 ? 2 * room : needed;
    }
    packer->room = MIN(room, packer->bytes_max);
    packer->bytes = erealloc(packer->bytes, packer->room);
    return true;
}

bool shim_put_varint(shim_packer *packer, uint64_t number)
{
    unsigned char bytes[10];
    size_t size = 0;
    while (number >= 0x80) {
        bytes[size++] = (unsigned char)(number | 0x80);
        number >>= 7;
    }
    bytes[size++] = (unsigned char)number;
    return shim_put(packer, bytes, size);
}

bool shim_put_text(shim_packer *packer, const char *bytes, size_t length)
{
    return shim_put_varint(packer, length) && shim_put(packer, bytes, length);
}

/* ---- values ---- */

static bool put_eight(shim_packer *packer, shim_tag tag, const void *number)
{
    unsigned char bytes[1 + sizeof(uint64_t)] = {(unsigned char)tag};
    memcpy(bytes + 1, number, sizeof(uint64_t));
    return shim_put(packer, bytes, sizeof(bytes));
}

static bool put_int(shim_packer *packer, zend_long number)
{
    const unsigned char small[] = {SHIM_TAG_SMALL, (unsigned char)number};
    return number >= 0 && number < 128 ? shim_put(packer, small, sizeof(small)) : put_eight(packer, SHIM_TAG_INT, &number);
}

static bool put_string(shim_packer *packer, const zend_string *string)
{
    return shim_put_tag(packer, SHIM_TAG_STRING) && shim_put_text(packer, ZSTR_VAL(string), ZSTR_LEN(string));
}

bool shim_put_key(shim_packer *packer, const zend_string *key, zend_ulong index)
{
    return key != NULL ? put_string(packer, key) : put_int(packer, (zend_long)index);
}

static bool pack_packed(shim_packer *packer, shim_place *place, HashTable *array)
{
    for (uint32_t i = 0; i < array->nNumUsed; i++) {
        zval *value = &array->arPacked[i];
        place->index = i;
        if (!(Z_TYPE_P(value) == IS_UNDEF ? shim_put_tag(packer, SHIM_TAG_HOLE) : shim_pack_at(packer, place, value))) {
            return false;
        }
    }
    return true;
}

static bool pack_hash(shim_packer *packer, shim_place *place, HashTable *array)
{
    zval *value;
    ZEND_HASH_MAP_FOREACH_KEY_VAL_IND(array, place->index, place->key, value) {
        if (!shim_put_key(packer, place->key, place->index) || !shim_pack_at(packer, place, value)) {
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

bool shim_pack_at(shim_packer *packer, const shim_place *place, zval *value)
{
    const bool is_reference = Z_ISREF_P(value);
    if (is_reference && packer->depth > 0 && Z_REFCOUNT_P(value) > 1) {
        return shim_pack_reference(packer, place, value);
    }
    ZVAL_DEREF(value);
    switch (Z_TYPE_P(value)) {
        case IS_FALSE:
            return shim_put_tag(packer, SHIM_TAG_FALSE);
        case IS_TRUE:
            return shim_put_tag(packer, SHIM_TAG_TRUE);
        case IS_LONG:
            return put_int(packer, Z_LVAL_P(value));
        case IS_DOUBLE:
            return put_eight(packer, SHIM_TAG_FLOAT, &Z_DVAL_P(value));
        case IS_STRING:
            return put_string(packer, Z_STR_P(value));
        case IS_ARRAY:
            return pack_array(packer, place, Z_ARRVAL_P(value), is_reference);
        case IS_OBJECT:
            return shim_pack_object(packer, place, Z_OBJ_P(value));
        case IS_RESOURCE:
            return shim_place_refuse(place, "a resource cannot be sent to a task");
        default:
            return shim_put_tag(packer, SHIM_TAG_NULL);
    }
}

/* Throws a TransferException: a value does not fit. Returns false. */
static bool refuse_size(const shim_packer *packer, const shim_place *place)
{
    char why[96];
    snprintf(why, sizeof(why), "the values of a task take more than %zu bytes (ASYNC_MAX_VALUE_BYTES)", packer->bytes_max);
    return shim_place_refuse(place, why);
}

bool shim_pack_value(shim_packer *packer, const char *name, zval *value)
{
    const shim_place place = {.kind = SHIM_PLACE_ROOT, .name = name};
    return shim_pack_at(packer, &place, value) || (EG(exception) == NULL && refuse_size(packer, &place));
}

/* ---- between values ---- */

void shim_pack_number(shim_packer *packer, uint64_t number)
{
    (void)put_eight(packer, SHIM_TAG_NUMBER, &number);
}

void shim_pack_bytes(shim_packer *packer, const char *bytes, size_t length)
{
    (void)(shim_put_tag(packer, SHIM_TAG_BYTES) && shim_put_text(packer, bytes, length));
}

shim_parcel *shim_packer_finish(shim_packer *packer)
{
    shim_parcel *parcel = packer->is_full ? NULL : malloc(sizeof(*parcel) + packer->length);
    if (parcel != NULL) {
        parcel->length = packer->length;
        memcpy(parcel->bytes, packer->bytes, packer->length);
    } else if (packer->is_full) {
        (void)refuse_size(packer, &(shim_place){.kind = SHIM_PLACE_ROOT, .name = "the task"});
    } else {
        shim_transfer_throw("there is no memory for the values of a task");
    }
    shim_packer_abandon(packer);
    return parcel;
}
