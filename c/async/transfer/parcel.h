/* Values on their way from one thread to another. */
#ifndef SVC_SHIM_PARCEL_H
#define SVC_SHIM_PARCEL_H

#include "shim.h"

#include <stddef.h>

/* A transfer that one thread has packed and another one unpacks: one block of malloc(), freed by free() on any thread.
 * Only async/transfer/unpacker.c reads it. */
struct shim_parcel {
    size_t length;
    char bytes[];
};

/* The first byte of a value. A length or a count is a varint: seven bits a byte, the lowest first. */
typedef enum shim_tag {
    SHIM_TAG_NULL,
    SHIM_TAG_FALSE,
    SHIM_TAG_TRUE,
    /* Eight bytes in the machine's order. */
    SHIM_TAG_INT,
    SHIM_TAG_FLOAT,
    /* The number itself, below 128. */
    SHIM_TAG_SMALL,
    /* Length, bytes. */
    SHIM_TAG_STRING,
    /* The next free key (eight bytes), count; for each element its value, or a hole. */
    SHIM_TAG_PACKED,
    SHIM_TAG_HOLE,
    /* The next free key (eight bytes), count; for each element its key (SHIM_TAG_INT, SHIM_TAG_SMALL or
     * SHIM_TAG_STRING) and its value. */
    SHIM_TAG_HASH,
    SHIM_TAG_EMPTY_ARRAY,
    /* A case of an enum: two strings without tags. */
    SHIM_TAG_CASE,
    /* An object in PHP's own format: see async/transfer/object_text.c. */
    SHIM_TAG_OBJECT,
    /* Between values. */
    SHIM_TAG_NUMBER,
    SHIM_TAG_BYTES,
} shim_tag;

/* Guard bytes after an object's text: PHP's unserializer reads on while it finds digits. */
enum { SHIM_OBJECT_GUARD = 2 };

#endif
