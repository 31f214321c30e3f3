/* A block of bytes that grows up to a bound. */
#include "async/transfer/buffer.h"

enum { ROOM_AT_FIRST = 256 };

bool shim_buffer_grow(shim_buffer *buffer, size_t size)
{
    /* The length never exceeds the bound, so no sum below overflows. */
    if (size > buffer->bytes_max - buffer->length) {
        return false;
    }
    const size_t needed = buffer->length + size;
    size_t room = buffer->room > 0 ? buffer->room : ROOM_AT_FIRST;
    while (room < needed) {
        room = room <= SIZE_MAX / 2 ? 2 * room : needed;
    }
    room = MIN(room, buffer->bytes_max);
    buffer->bytes = erealloc(buffer->bytes, room);
    buffer->room = room;
    return true;
}

void shim_buffer_free(shim_buffer *buffer)
{
    if (buffer->bytes != NULL) {
        efree(buffer->bytes);
        buffer->bytes = NULL;
    }
    buffer->length = buffer->room = 0;
}
