/* Reading bytes without going past their end. */
#include "async/transfer/exceptions.h"
#include "async/transfer/reader.h"

void shim_reader_throw(void)
{
    shim_transfer_throw("The values of a task are damaged");
}

bool shim_reader_get_varint(shim_reader *reader, uint64_t *number)
{
    *number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned char byte;
        if (!shim_reader_get_byte(reader, &byte)) {
            return false;
        }
        *number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return shim_reader_fail();
}

bool shim_reader_get_view(shim_reader *reader, shim_view *view)
{
    uint64_t length;
    if (!shim_reader_get_varint(reader, &length)) {
        return false;
    }
    if (length > shim_reader_left(reader)) {
        return shim_reader_fail();
    }
    *view = (shim_view){.bytes = reader->at, .length = (size_t)length};
    reader->at += length;
    return true;
}
