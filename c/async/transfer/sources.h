/* Files that this thread has compiled to take functions from them. */
#ifndef SVC_SHIM_SOURCES_H
#define SVC_SHIM_SOURCES_H

#include "async/transfer/marks.h"

/* Returns the function with this mark; NULL if its file has changed or cannot be read. The thread keeps it until no
 * closure of it is left. `is_cached`: the sender has it from OPcache. */
zend_op_array *shim_source_function(zend_string *path, shim_mark mark, bool is_cached);
/* Call when the request of this thread has ended, and with it all closures. */
void shim_sources_free(void);

#endif
