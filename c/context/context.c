/* The request that runs on the thread.
 *
 * Everything that PHP calls asks here first whether a request is in its place, and whose it is. */
#include "compat.h"
#include "context/context.h"

ZEND_TSRMLS_CACHE_DEFINE()

__thread shim_context *shim_current;
bool shim_is_child;
