/* Closures on their way to another thread. */
#ifndef SVC_SHIM_CODE_H
#define SVC_SHIM_CODE_H

#include "async/transfer/packer.h"
#include "async/transfer/unpacker.h"
#include "compat.h"

/* Packs the identity of the closure's function, the class that it was written in, and the variables that it captures.
 * Returns false if a TransferException is thrown. May run script code, like shim_pack_value(). */
bool shim_pack_code(shim_packer *packer, zend_object *closure);
/* Whether the result of shim_pack_code() points into OPcache's memory: OPcache must not restart before it is unpacked,
 * nor while the closure exists. */
bool shim_code_is_shared(zend_object *closure);
/* Makes the closure. Returns false if an exception is thrown; no code of the function has run then. May run script code
 * (autoloaders, and the code that shim_unpack_value() runs). */
bool shim_unpack_code(shim_unpacker *unpacker, zval *closure);
/* Call when the request of this thread has ended, and with it all closures. */
void shim_code_end(void);

#endif
