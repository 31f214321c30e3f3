/* What a task has thrown, on its way to who awaits it. */
#ifndef SVC_SHIM_FAILURE_H
#define SVC_SHIM_FAILURE_H

#include "transfer/packer.h"
#include "transfer/unpacker.h"

/* Packs an exception that nobody has caught: message, code, class, trace without arguments, and the object itself if it
 * can be packed. Its reference stays the caller's. Returns false if another exception is thrown meanwhile by exit() or by the end
 * of the fiber; what packing the object throws is dropped. May run a script's code. */
bool shim_pack_failure(shim_packer *packer, zend_object *exception);
/* Packs an end without an exception: a fatal error or exit(). */
void shim_pack_failure_text(shim_packer *packer, shim_view message);
/* Throws what was packed as a TaskException, or a TransferException if the parcel is damaged. May run a script's code. */
void shim_throw_failure(shim_unpacker *unpacker);

#endif
