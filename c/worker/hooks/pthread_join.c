/* Interposes pthread_join(): libcurl resolves names on threads that it starts.
 *
 * While such a thread works, libcurl waits in poll(), which has a hook. But a transfer that ends before its name is
 * resolved, for example by a timeout, joins the thread, and a resolver cannot be interrupted: it may take as long as its
 * own timeouts. No event reports the end of a foreign thread, so the request polls for it, with pauses. */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/hooks/hooks.h"

#include <errno.h>
#include <pthread.h>

int pthread_join(pthread_t thread, void **result)
{
    if (!shim_hook_is_on_for(SHIM_HOOK_DNS, SHIM_CALLER)) {
        return NEXT(pthread_join)(thread, result);
    }
    int64_t pause = 0;
    int error = pthread_tryjoin_np(thread, result);
    while (error == EBUSY) {
        if (shim_hooked_pause(SHIM_HOOK_DNS, &pause) != SHIM_WAITED_CHECK) {
            /* The caller frees memory that the thread uses, so the join cannot be abandoned. */
            return NEXT(pthread_join)(thread, result);
        }
        error = pthread_tryjoin_np(thread, result);
    }
    return error;
}
