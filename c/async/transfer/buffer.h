/* A block of bytes that grows up to a bound. */
#ifndef SVC_SHIM_BUFFER_H
#define SVC_SHIM_BUFFER_H

#include "compat.h"

/* Its memory belongs to the request. length <= room, and length <= bytes_max. */
typedef struct shim_buffer {
    char *bytes;
    size_t length;
    size_t room;
    size_t bytes_max;
} shim_buffer;

/* Enlarges the buffer for `size` more bytes. Returns false if they exceed its bound; throws nothing. */
bool shim_buffer_grow(shim_buffer *buffer, size_t size);
void shim_buffer_free(shim_buffer *buffer);

static inline bool shim_buffer_reserve(shim_buffer *buffer, size_t size)
{
    return EXPECTED(buffer->room - buffer->length >= size) || shim_buffer_grow(buffer, size);
}

static inline bool shim_buffer_put(shim_buffer *buffer, const void *bytes, size_t size)
{
    if (UNEXPECTED(!shim_buffer_reserve(buffer, size))) {
        return false;
    }
    if (size > 0) {
        memcpy(buffer->bytes + buffer->length, bytes, size);
    }
    buffer->length += size;
    return true;
}

static inline bool shim_buffer_put_byte(shim_buffer *buffer, unsigned char byte)
{
    return shim_buffer_put(buffer, &byte, 1);
}

/* The longest varint. */
enum { SHIM_VARINT_MAX = 10 };

static inline bool shim_buffer_put_varint(shim_buffer *buffer, uint64_t number)
{
    unsigned char bytes[SHIM_VARINT_MAX];
    size_t size = 0;
    while (number >= 0x80) {
        bytes[size++] = (unsigned char)(number | 0x80);
        number >>= 7;
    }
    bytes[size++] = (unsigned char)number;
    return shim_buffer_put(buffer, bytes, size);
}

static inline bool shim_buffer_put_string(shim_buffer *buffer, const char *bytes, size_t length)
{
    return shim_buffer_put_varint(buffer, length) && shim_buffer_put(buffer, bytes, length);
}

#endif
