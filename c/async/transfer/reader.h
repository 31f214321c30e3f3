/* Reading bytes without going past their end. */
#ifndef SVC_SHIM_READER_H
#define SVC_SHIM_READER_H

#include "compat.h"
#include "shim.h"

typedef struct shim_reader {
    const char *at;
    const char *end;
} shim_reader;

void shim_reader_throw(void);

/* Throws a TransferException: the bytes are damaged. Returns false. */
static inline bool shim_reader_fail(void)
{
    shim_reader_throw();
    return false;
}

static inline size_t shim_reader_left(const shim_reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

static inline bool shim_reader_get(shim_reader *reader, void *to, size_t size)
{
    if (UNEXPECTED(shim_reader_left(reader) < size)) {
        return shim_reader_fail();
    }
    memcpy(to, reader->at, size);
    reader->at += size;
    return true;
}

static inline bool shim_reader_get_byte(shim_reader *reader, unsigned char *byte)
{
    return shim_reader_get(reader, byte, 1);
}

bool shim_reader_get_varint(shim_reader *reader, uint64_t *number);
/* Reads a length, and a view of that many bytes. */
bool shim_reader_get_view(shim_reader *reader, shim_view *view);

#endif
