/* The exception of a task, on its way to the awaiting request. */
#ifndef SVC_SHIM_FAILURE_H
#define SVC_SHIM_FAILURE_H

#include "async/transfer/packer.h"
#include "async/transfer/unpacker.h"

/* Packs an uncaught exception: message, code, class, trace without arguments, and the object itself if it can be
 * packed. The caller keeps its reference. Returns false if exit() or the end of the fiber throws meanwhile; exceptions
 * from packing the object are dropped. May run script code. */
bool shim_pack_failure(shim_packer *packer, zend_object *exception);
/* Packs an end without an exception: a fatal error or exit(). */
void shim_pack_failure_text(shim_packer *packer, shim_view message);
/* Throws the packed failure as a TaskException, or a TransferException if the parcel is damaged. May run script code. */
void shim_throw_failure(shim_unpacker *unpacker);

#endif
