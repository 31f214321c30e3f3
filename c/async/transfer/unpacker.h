/* One transfer on its way in. */
#ifndef SVC_SHIM_UNPACKER_H
#define SVC_SHIM_UNPACKER_H

#include "async/transfer/parcel.h"
#include "async/transfer/reader.h"
#include "compat.h"
#include "shim.h"

#include <ext/standard/php_var.h>

/* Lives on the caller's stack, no longer than the parcel that it reads. Reads values in the order in which they were
 * packed. */
typedef struct shim_unpacker {
    shim_reader in;
    /* The objects of the transfer, by number; NULL before the first one. */
    php_unserialize_data_t objects;
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

#endif
