/* One transfer on its way out: values, and numbers and bytes between them. */
#ifndef SVC_SHIM_PACKER_H
#define SVC_SHIM_PACKER_H

#include "async/transfer/buffer.h"
#include "async/transfer/object_text.h"
#include "async/transfer/parcel.h"
#include "compat.h"

/* Lives on the caller's stack, from begin to finish or abandon. Its memory belongs to the request until it is finished,
 * so that a bailout leaks nothing.
 *
 * Objects keep their identity across all values of a packer. Once a value has been refused, the packer can only be
 * abandoned. */
typedef struct shim_packer {
    shim_buffer out;
    shim_object_texts objects;
    /* A number or bytes did not fit: shim_packer_finish() will refuse. */
    bool is_full;
} shim_packer;

void shim_packer_begin(shim_packer *packer, size_t bytes_max);
/* Packs a value. Returns false if an exception is thrown: a TransferException that names `place` (such as "argument 2")
 * and the position inside it, or exit(). May run script code (__serialize, __sleep), which may suspend its fiber or
 * bail out. */
bool shim_pack_value(shim_packer *packer, const char *place, zval *value);
void shim_pack_number(shim_packer *packer, uint64_t number);
void shim_pack_bytes(shim_packer *packer, const char *bytes, size_t length);
/* Returns the number of bytes packed so far. */
size_t shim_packer_length(const shim_packer *packer);
/* Ends the packer. Returns the parcel, which the caller owns; NULL with an exception if it is too long or there is no
 * memory. */
shim_parcel *shim_packer_finish(shim_packer *packer);
/* Ends the packer without a parcel. */
void shim_packer_abandon(shim_packer *packer);

#endif
