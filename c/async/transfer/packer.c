/* One transfer on its way out: values, and numbers and bytes between them. */
#include "async/transfer/exceptions.h"
#include "async/transfer/packer.h"
#include "async/transfer/place.h"
#include "async/transfer/stack.h"

#include <zend_enum.h>

void shim_packer_begin(shim_packer *packer, size_t bytes_max)
{
    *packer = (shim_packer){.out.bytes_max = bytes_max};
}

void shim_packer_abandon(shim_packer *packer)
{
    shim_object_texts_end(&packer->objects);
    shim_buffer_free(&packer->out);
}

size_t shim_packer_length(const shim_packer *packer)
{
    return packer->out.length;
}

/* ---- values ---- */

static bool pack(shim_packer *packer, const shim_place *place, zval *value);

static bool refuse_size(const shim_packer *packer, const shim_place *place)
{
    return shim_place_refuse_size(place, packer->out.bytes_max);
}

static bool put_tag(shim_packer *packer, shim_tag tag)
{
    return shim_buffer_put_byte(&packer->out, (unsigned char)tag);
}

static bool put_int(shim_packer *packer, zend_long number)
{
    if (number >= 0 && number < 128) {
        const unsigned char bytes[] = {SHIM_TAG_SMALL, (unsigned char)number};
        return shim_buffer_put(&packer->out, bytes, sizeof(bytes));
    }
    unsigned char bytes[1 + sizeof(number)] = {SHIM_TAG_INT};
    memcpy(bytes + 1, &number, sizeof(number));
    return shim_buffer_put(&packer->out, bytes, sizeof(bytes));
}

static bool put_float(shim_packer *packer, double number)
{
    unsigned char bytes[1 + sizeof(number)] = {SHIM_TAG_FLOAT};
    memcpy(bytes + 1, &number, sizeof(number));
    return shim_buffer_put(&packer->out, bytes, sizeof(bytes));
}

static bool put_string(shim_packer *packer, const zend_string *string)
{
    return put_tag(packer, SHIM_TAG_STRING) && shim_buffer_put_string(&packer->out, ZSTR_VAL(string), ZSTR_LEN(string));
}

static bool put_array_head(shim_packer *packer, const HashTable *array, uint32_t count)
{
    const zend_long next = array->nNextFreeElement;
    return put_tag(packer, HT_IS_PACKED(array) ? SHIM_TAG_PACKED : SHIM_TAG_HASH) &&
           shim_buffer_put(&packer->out, &next, sizeof(next)) && shim_buffer_put_varint(&packer->out, count);
}

static bool pack_packed(shim_packer *packer, shim_place *place, const HashTable *array)
{
    if (!put_array_head(packer, array, array->nNumUsed)) {
        return refuse_size(packer, place);
    }
    for (uint32_t i = 0; i < array->nNumUsed; i++) {
        zval *value = &array->arPacked[i];
        place->index = i;
        if (Z_TYPE_P(value) == IS_UNDEF) {
            if (!put_tag(packer, SHIM_TAG_HOLE)) {
                return refuse_size(packer, place);
            }
        } else if (!pack(packer, place, value)) {
            return false;
        }
    }
    return true;
}

static bool pack_hash(shim_packer *packer, shim_place *place, HashTable *array)
{
    if (!put_array_head(packer, array, zend_array_count(array))) {
        return refuse_size(packer, place);
    }
    zend_string *key;
    zend_ulong index;
    zval *value;
    ZEND_HASH_MAP_FOREACH_KEY_VAL_IND(array, index, key, value) {
        place->key = key;
        place->index = index;
        if (!(key != NULL ? put_string(packer, key) : put_int(packer, (zend_long)index))) {
            return refuse_size(packer, place);
        }
        if (!pack(packer, place, value)) {
            return false;
        }
    } ZEND_HASH_FOREACH_END();
    return true;
}

/* `is_behind_reference`: an array can only contain itself through a reference. */
static bool pack_array(shim_packer *packer, const shim_place *outer, HashTable *array, bool is_behind_reference)
{
    if (array->nNumOfElements == 0 && array->nNextFreeElement == ZEND_LONG_MIN) {
        return put_tag(packer, SHIM_TAG_EMPTY_ARRAY) || refuse_size(packer, outer);
    }
    if (is_behind_reference && shim_place_is_within(outer, array)) {
        shim_place_refuse(outer, "an array that contains itself cannot be sent to a task");
        return false;
    }
    if (shim_stack_is_short()) {
        shim_place_refuse_whole(outer, "the value is nested too deeply");
        return false;
    }
    shim_place place = {.outer = outer, .kind = SHIM_PLACE_ELEMENT, .array = array};
    /* Script code that runs meanwhile changes a copy. */
    const bool is_counted = !(GC_FLAGS(array) & GC_IMMUTABLE);
    if (is_counted) {
        GC_ADDREF(array);
    }
    const bool is_packed = HT_IS_PACKED(array) ? pack_packed(packer, &place, array) : pack_hash(packer, &place, array);
    if (is_counted) {
        zend_array_release(array);
    }
    return is_packed;
}

static bool put_case(shim_packer *packer, zend_object *object)
{
    const zend_string *class_name = object->ce->name, *name = Z_STR_P(zend_enum_fetch_case_name(object));
    return put_tag(packer, SHIM_TAG_CASE) &&
           shim_buffer_put_string(&packer->out, ZSTR_VAL(class_name), ZSTR_LEN(class_name)) &&
           shim_buffer_put_string(&packer->out, ZSTR_VAL(name), ZSTR_LEN(name));
}

static bool pack_object(shim_packer *packer, const shim_place *place, zend_object *object)
{
    if (object->ce->ce_flags & ZEND_ACC_ENUM) {
        return put_case(packer, object) || refuse_size(packer, place);
    }
    return put_tag(packer, SHIM_TAG_OBJECT) ? shim_object_write(&packer->objects, &packer->out, place, object)
                                            : refuse_size(packer, place);
}

static bool pack(shim_packer *packer, const shim_place *place, zval *value)
{
    const bool is_reference = Z_ISREF_P(value);
    bool is_put = true;
    ZVAL_DEREF(value);
    switch (Z_TYPE_P(value)) {
        case IS_FALSE:
            is_put = put_tag(packer, SHIM_TAG_FALSE);
            break;
        case IS_TRUE:
            is_put = put_tag(packer, SHIM_TAG_TRUE);
            break;
        case IS_LONG:
            is_put = put_int(packer, Z_LVAL_P(value));
            break;
        case IS_DOUBLE:
            is_put = put_float(packer, Z_DVAL_P(value));
            break;
        case IS_STRING:
            is_put = put_string(packer, Z_STR_P(value));
            break;
        case IS_ARRAY:
            return pack_array(packer, place, Z_ARRVAL_P(value), is_reference);
        case IS_OBJECT:
            return pack_object(packer, place, Z_OBJ_P(value));
        case IS_RESOURCE:
            shim_place_refuse(place, "a resource cannot be sent to a task");
            return false;
        default:
            is_put = put_tag(packer, SHIM_TAG_NULL);
            break;
    }
    return is_put || refuse_size(packer, place);
}

bool shim_pack_value(shim_packer *packer, const char *place, zval *value)
{
    const shim_place root = {.kind = SHIM_PLACE_ROOT, .name = place};
    return packer->is_full ? refuse_size(packer, &root) : pack(packer, &root, value);
}

/* ---- between values ---- */

void shim_pack_number(shim_packer *packer, uint64_t number)
{
    if (!put_tag(packer, SHIM_TAG_NUMBER) || !shim_buffer_put(&packer->out, &number, sizeof(number))) {
        packer->is_full = true;
    }
}

void shim_pack_bytes(shim_packer *packer, const char *bytes, size_t length)
{
    if (!put_tag(packer, SHIM_TAG_BYTES) || !shim_buffer_put_string(&packer->out, bytes, length)) {
        packer->is_full = true;
    }
}

shim_parcel *shim_packer_finish(shim_packer *packer)
{
    shim_parcel *parcel = NULL;
    if (packer->is_full) {
        const shim_place whole = {.kind = SHIM_PLACE_ROOT, .name = "the task"};
        (void)refuse_size(packer, &whole);
    } else {
        parcel = malloc(sizeof(*parcel) + packer->out.length);
        if (parcel != NULL) {
            parcel->length = packer->out.length;
            if (parcel->length > 0) {
                memcpy(parcel->bytes, packer->out.bytes, parcel->length);
            }
        } else {
            shim_transfer_throw("there is no memory for the values of a task");
        }
    }
    shim_packer_abandon(packer);
    return parcel;
}
