/* pthread_join(), defined before libc's: libcurl resolves names on threads of its own.
 *
 * While such a thread works, libcurl waits in poll(), which has a hook. But a transfer that ends before its name is known,
 * by a timeout for example, joins the thread, and a resolver cannot be interrupted: it may take as long as its own
 * timeouts. Nothing tells the end of a foreign thread, so the request looks for it, in pauses. */
#include "compat.h"
#include "hooks/hooked_wait.h"
#include "hooks/hooks.h"
#include "libc/libc.h"

#include <errno.h>
#include <pthread.h>

DECLARE_LIBC(pthread_join);

int pthread_join(pthread_t thread, void **result)
{
    if (!shim_hook_is_on_for(SHIM_HOOK_DNS, SHIM_CALLER)) {
        return LIBC(pthread_join)(thread, result);
    }
    int64_t pause = 0;
    int error = pthread_tryjoin_np(thread, result);
    while (error == EBUSY) {
        if (shim_hooked_pause(SHIM_HOOK_DNS, &pause) != SHIM_WAITED_LOOK) {
            /* Its caller frees what the thread uses, so there is no giving up. */
            return LIBC(pthread_join)(thread, result);
        }
        error = pthread_tryjoin_np(thread, result);
    }
    return error;
}
