/* One transfer on its way out: values, and numbers and bytes between them. */
#ifndef SVC_SHIM_PACKER_H
#define SVC_SHIM_PACKER_H

#include "compat.h"
#include "async/transfer/parcel.h"
#include "async/transfer/place.h"

#include <ext/standard/php_var.h>

/* Lives on the caller's stack, from begin to finish or abandon. Its memory belongs to the request until it is finished,
 * so that a bailout leaks nothing.
 *
 * Objects keep their identity across all values of a packer. Once a value has been refused, the packer can only be
 * abandoned. */
typedef struct shim_packer {
    /* length <= room, and length <= bytes_max. */
    char *bytes;
    size_t length;
    size_t room;
    size_t bytes_max;
    /* Something did not fit: shim_packer_finish() will refuse. */
    bool is_full;
    /* The number of objects that are being packed, one inside the other. */
    uint32_t depth;
    /* The objects, and the references inside them, by number; NULL before the first object. */
    php_serialize_data_t numbers;
} shim_packer;

void shim_packer_begin(shim_packer *packer, size_t bytes_max);
/* Packs a value. Returns false if an exception is thrown: a TransferException that names `place` (such as "argument 2")
 * and the position inside it, or exit(). May run script code (__serialize, __sleep), which may suspend its fiber or
 * bail out. */
bool shim_pack_value(shim_packer *packer, const char *place, zval *value);
void shim_pack_number(shim_packer *packer, uint64_t number);
void shim_pack_bytes(shim_packer *packer, const char *bytes, size_t length);
/* Ends the packer. Returns the parcel, which the caller owns; NULL with an exception if it is too long or there is no
 * memory. */
shim_parcel *shim_packer_finish(shim_packer *packer);
/* Ends the packer without a parcel. */
void shim_packer_abandon(shim_packer *packer);

/* ---- between the files that pack ---- */

/* These functions return false without an exception if the bound is reached: the packer is full. */
bool shim_packer_grow(shim_packer *packer, size_t size);

static inline bool shim_put(shim_packer *packer, const void *bytes, size_t size)
{
    if (UNEXPECTED(packer->room - packer->length < size) && !shim_packer_grow(packer, size)) {
        return false;
    }
    if (size > 0) {
        memcpy(packer->bytes + packer->length, bytes, size);
    }
    packer->length += size;
    return true;
}

static inline bool shim_put_tag(shim_packer *packer, shim_tag tag)
{
    const unsigned char byte = (unsigned char)tag;
    return shim_put(packer, &byte, 1);
}

bool shim_put_varint(shim_packer *packer, uint64_t number);
bool shim_put_text(shim_packer *packer, const char *bytes, size_t length);
bool shim_put_key(shim_packer *packer, const zend_string *key, zend_ulong index);
/* Packs a value at a place. Returns false if the packer is full or an exception is thrown. */
bool shim_pack_at(shim_packer *packer, const shim_place *place, zval *value);
/* Packs an object, or a reference inside an object, likewise. */
bool shim_pack_object(shim_packer *packer, const shim_place *place, zend_object *object);
bool shim_pack_reference(shim_packer *packer, const shim_place *place, zval *reference);
void shim_pack_objects_end(shim_packer *packer);

#endif
