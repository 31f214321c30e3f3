/* One transfer on its way in. */
#ifndef SVC_SHIM_UNPACKER_H
#define SVC_SHIM_UNPACKER_H

#include "compat.h"
#include "shim.h"
#include "async/transfer/parcel.h"

#include <ext/standard/php_var.h>

/* Lives on the caller's stack, no longer than the parcel that it reads. Reads values in the order in which they were
 * packed. */
typedef struct shim_unpacker {
    const char *at;
    const char *end;
    /* The objects of the transfer, by number; NULL before the first one. */
    php_unserialize_data_t objects;
    /* The objects to be completed: each object, and the data for __unserialize(), or null for __wakeup(). */
    HashTable *incomplete;
} shim_unpacker;

void shim_unpacker_begin(shim_unpacker *unpacker, const shim_parcel *parcel);
/* Begins likewise with bytes that shim_pack_bytes() has packed, within a parcel. */
void shim_unpacker_begin_view(shim_unpacker *unpacker, shim_view bytes);
/* Unpacks a value. Returns false if an exception is thrown: a TransferException if a class cannot be loaded in this
 * thread, or exit(). `value` is then UNDEF. May run script code (autoloaders, Serializable::unserialize), which may
 * suspend its fiber or bail out. Objects may be incomplete before shim_unpacker_end(). */
bool shim_unpack_value(shim_unpacker *unpacker, zval *value);
/* Both return false, with an exception, if the next item is of another kind. */
bool shim_unpack_number(shim_unpacker *unpacker, uint64_t *number);
/* `bytes` is a view into the parcel. */
bool shim_unpack_bytes(shim_unpacker *unpacker, shim_view *bytes);
/* Calls __unserialize and __wakeup of the objects. Returns false if one of them has thrown: a TransferException with
 * that exception as its previous is thrown, and the caller releases the unpacked values. Calls nothing if an exception
 * is already thrown. */
bool shim_unpacker_end(shim_unpacker *unpacker);

/* ---- between the files that unpack ---- */

static inline size_t shim_left(const shim_unpacker *unpacker)
{
    return (size_t)(unpacker->end - unpacker->at);
}

void shim_unpack_throw(void);

/* Throws a TransferException: the bytes are damaged. Returns false. */
static inline bool shim_unpack_fail(void)
{
    shim_unpack_throw();
    return false;
}

/* All of these return false with an exception, too. */
static inline bool shim_get(shim_unpacker *unpacker, void *to, size_t size)
{
    if (UNEXPECTED(shim_left(unpacker) < size)) {
        return shim_unpack_fail();
    }
    memcpy(to, unpacker->at, size);
    unpacker->at += size;
    return true;
}

static inline bool shim_get_byte(shim_unpacker *unpacker, unsigned char *byte)
{
    return shim_get(unpacker, byte, 1);
}

bool shim_get_varint(shim_unpacker *unpacker, uint64_t *number);
/* Reads a length, and a view of that many bytes. */
bool shim_get_view(shim_unpacker *unpacker, shim_view *view);
/* Reads the rest of a key; `name` is NULL if it is a number. */
bool shim_get_key(shim_unpacker *unpacker, unsigned char tag, zend_string **name, zend_ulong *index);
/* Reads a case of an enum, an object, or a reference. */
bool shim_unpack_object(shim_unpacker *unpacker, unsigned char tag, zval *value);

#endif
