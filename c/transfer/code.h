/* Closures on their way to another thread. */
#ifndef SVC_SHIM_CODE_H
#define SVC_SHIM_CODE_H

#include "compat.h"
#include "transfer/packer.h"
#include "transfer/unpacker.h"

/* Packs which function it is, the class it was written in, and the variables that it captures. Returns false if a
 * TransferException is thrown. May run a script's code, as shim_pack_value() does. */
bool shim_pack_code(shim_packer *packer, zend_object *closure);
/* Whether what shim_pack_code() packs leads into OPcache's memory: OPcache must not restart before it is unpacked, and as
 * long as the closure exists. */
bool shim_code_is_shared(zend_object *closure);
/* Makes the closure. Returns false if an exception is thrown; nothing of the function has run then. May run a script's code
 * (autoloaders, and what shim_unpack_value() runs). */
bool shim_unpack_code(shim_unpacker *unpacker, zval *closure);
/* The request of this thread has ended, and with it all closures. */
void shim_code_end(void);

#endif
