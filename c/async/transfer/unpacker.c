/* One transfer on its way in: its bytes. Never reads beyond the payload, even if it is damaged. */
#include "async/transfer/transfer.h"

void shim_unpacker_begin_view(shim_unpacker *unpacker, shim_view bytes)
{
    *unpacker = (shim_unpacker){.at = bytes.bytes, .end = bytes.bytes + bytes.length};
}

void shim_unpacker_begin(shim_unpacker *unpacker, const shim_payload *payload)
{
    shim_unpacker_begin_view(unpacker, (shim_view){.bytes = payload->bytes, .length = payload->length});
}

void shim_payload_free(shim_payload *payload)
{
    free(payload);
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

bool shim_get_key(shim_unpacker *unpacker, unsigned char tag, zend_string **name, zend_ulong *index)
{
    shim_view view;
    unsigned char small;
    *name = NULL;
    switch (tag) {
    case SHIM_TAG_STRING:
        if (!shim_get_view(unpacker, &view)) {
            return false;
        }
        *name = zend_string_init_existing_interned(view.bytes, view.length, false);
        return true;
    case SHIM_TAG_INT:
        return shim_get(unpacker, index, sizeof(*index));
    case SHIM_TAG_SMALL:
        if (!shim_get_byte(unpacker, &small)) {
            return false;
        }
        *index = small;
        return true;
    default:
        return shim_unpack_fail();
    }
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
