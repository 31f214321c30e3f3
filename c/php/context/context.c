/* The request that runs on the current thread.
 *
 * Every function that PHP calls checks here first whether a request is active, and which one. */
#include "compat.h"
#include "php/context/context.h"

ZEND_TSRMLS_CACHE_DEFINE()

__thread shim_context *shim_current;
bool shim_is_child;

shim_outcome shim_outcome_of(const shim_context *context)
{
    if (context->fatal) {
        return context->timed_out ? SHIM_TIME_LIMIT : SHIM_FATAL;
    }
    if (context->lacks_script) {
        return SHIM_NO_SCRIPT;
    }
    return context->refused ? SHIM_ABORTED : SHIM_COMPLETE;
}
