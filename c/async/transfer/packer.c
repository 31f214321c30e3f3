/* One transfer on its way out: its bytes. */
#include "async/transfer/transfer.h"

void shim_packer_begin(shim_packer *packer, size_t bytes_max)
{
    *packer = (shim_packer){.bytes_max = bytes_max};
}

void shim_packer_abandon(shim_packer *packer)
{
    if (packer->numbers != NULL) {
        BG(serialize_lock)++;
        php_var_serialize_destroy(packer->numbers);
        BG(serialize_lock)--;
        packer->numbers = NULL;
    }
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

bool shim_put_eight(shim_packer *packer, shim_tag tag, const void *number)
{
    unsigned char bytes[1 + sizeof(uint64_t)] = {(unsigned char)tag};
    memcpy(bytes + 1, number, sizeof(uint64_t));
    return shim_put(packer, bytes, sizeof(bytes));
}

static bool put_int(shim_packer *packer, zend_long number)
{
    const unsigned char small[] = {SHIM_TAG_SMALL, (unsigned char)number};
    return number >= 0 && number < 128 ? shim_put(packer, small, sizeof(small))
                                       : shim_put_eight(packer, SHIM_TAG_INT, &number);
}

static bool put_string(shim_packer *packer, const zend_string *string)
{
    return shim_put_tag(packer, SHIM_TAG_STRING) && shim_put_text(packer, ZSTR_VAL(string), ZSTR_LEN(string));
}

bool shim_put_key(shim_packer *packer, const zend_string *key, zend_ulong index)
{
    return key != NULL ? put_string(packer, key) : put_int(packer, (zend_long)index);
}

/* ---- between values ---- */

void shim_pack_number(shim_packer *packer, uint64_t number)
{
    (void)shim_put_eight(packer, SHIM_TAG_NUMBER, &number);
}

void shim_pack_bytes(shim_packer *packer, const char *bytes, size_t length)
{
    (void)(shim_put_tag(packer, SHIM_TAG_BYTES) && shim_put_text(packer, bytes, length));
}

bool shim_packer_refuse(const shim_packer *packer, const shim_place *place)
{
    char why[96];
    snprintf(why, sizeof(why), "the values of a task take more than %zu bytes (ASYNC_MAX_VALUE_BYTES)", packer->bytes_max);
    return shim_place_refuse(place, why);
}

shim_payload *shim_packer_finish(shim_packer *packer)
{
    shim_payload *payload = packer->is_full ? NULL : malloc(sizeof(*payload) + packer->length);
    if (payload != NULL) {
        payload->length = packer->length;
        if (packer->length > 0) {
            memcpy(payload->bytes, packer->bytes, packer->length);
        }
    } else if (packer->is_full) {
        (void)shim_packer_refuse(packer, &(shim_place){.kind = SHIM_PLACE_ROOT, .name = "the task"});
    } else {
        shim_transfer_throw("there is no memory for the values of a task");
    }
    shim_packer_abandon(packer);
    return payload;
}
