/* One transfer on its way in. */
#ifndef SVC_SHIM_UNPACKER_H
#define SVC_SHIM_UNPACKER_H

#include "compat.h"
#include "shim.h"
#include "transfer/parcel.h"
#include "transfer/reader.h"

#include <ext/standard/php_var.h>

/* Lives on the caller's stack, as long as the parcel that it reads. Reads in the order in which was packed. */
typedef struct shim_unpacker {
    shim_reader in;
    /* The objects of the transfer, by number; NULL before the first one. */
    php_unserialize_data_t objects;
} shim_unpacker;

void shim_unpacker_begin(shim_unpacker *unpacker, const shim_parcel *parcel);
/* The same for what shim_pack_bytes() has packed, if it comes from a parcel. */
void shim_unpacker_begin_view(shim_unpacker *unpacker, shim_view bytes);
/* Returns false if an exception is thrown: a TransferException if a class cannot be loaded in this thread, or exit().
 * `value` is UNDEF then. May run a script's code (autoloaders, Serializable::unserialize), which may suspend its fiber or
 * bail out. Before shim_unpacker_end() the objects may not be complete. */
bool shim_unpack_value(shim_unpacker *unpacker, zval *value);
/* Both return false, with an exception, if there is none. */
bool shim_unpack_number(shim_unpacker *unpacker, uint64_t *number);
/* `bytes` is a view into the parcel. */
bool shim_unpack_bytes(shim_unpacker *unpacker, shim_view *bytes);
/* Calls what objects have for that: __unserialize and __wakeup. Returns false if one of them has thrown: a TransferException
 * is thrown, with that as its previous, and what has been unpacked is to be released. Calls nothing if an exception is
 * thrown already. */
bool shim_unpacker_end(shim_unpacker *unpacker);

#endif
