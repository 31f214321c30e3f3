/* Closures on their way to another thread. */
#ifndef SVC_SHIM_CODE_H
#define SVC_SHIM_CODE_H

#include "async/transfer/packer.h"
#include "async/transfer/unpacker.h"
#include "compat.h"

/* Packs the identity of the closure's function, the class that it was written in, and the variables that it captures.
 * Returns false if a TransferException is thrown. May run script code, like shim_pack_value(). */
bool shim_pack_code(shim_packer *packer, zend_object *closure);
/* Whether the function is in OPcache's memory: if OPcache restarts before the function is unpacked, and the file has
 * changed, it is lost. */
bool shim_code_is_shared(zend_object *closure);
/* Makes the closure; release it with shim_code_release(). Returns false if an exception is thrown; no code of the
 * function has run then. May run script code (autoloaders, and the code that shim_unpack_value() runs). */
bool shim_unpack_code(shim_unpacker *unpacker, zval *closure);
void shim_code_release(zval *closure);

#endif
