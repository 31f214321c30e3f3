/* The request that runs on the current thread.
 *
 * Everything that PHP calls checks here first whether a request is active, and which one. */
#include "compat.h"
#include "context/context.h"

ZEND_TSRMLS_CACHE_DEFINE()

__thread shim_context *shim_current;
bool shim_is_child;
