/* Waits of hooked calls. */
#ifndef SVC_SHIM_HOOKED_WAIT_H
#define SVC_SHIM_HOOKED_WAIT_H

#include "shim.h"
#include "worker/stack/wait_set.h"

#include <stdint.h>

/* The caller's next step after a wait. */
typedef enum shim_waited {
    /* The wait ended, possibly for another reason: the caller checks, and waits again if necessary. */
    SHIM_WAITED_LOOK = 0,
    /* A descriptor of the set was closed. Its number may belong to another file by now. */
    SHIM_WAITED_CLOSED,
    SHIM_WAITED_EXPIRED,
    /* The request may no longer wait: its time limit has expired, or it is a cancelled task. The call fails with an error
     * after which its library does not retry. */
    SHIM_WAITED_OVER,
    /* The request cannot wait without blocking its thread, which has been counted; the caller calls libc. */
    SHIM_WAITED_BLOCK,
} shim_waited;

/* For callers whose preparations are expensive: returns SHIM_WAITED_LOOK if the request may wait, otherwise what
 * shim_hooked_wait would return, and counts it. */
shim_waited shim_hooked_may_wait(shim_hook hook);
/* Waits in the fiber. Keeps errno. */
shim_waited shim_hooked_wait(shim_hook hook, const shim_wait_set *set);
/* Waits for poll() events of one descriptor; a deadline of 0 means none. */
shim_waited shim_hooked_wait_for(shim_hook hook, int descriptor, short events, int64_t deadline);
/* Pauses before the next attempt at an operation whose completion no event reports. `pause` starts at 0; each pause is
 * longer than the previous one, up to a limit. Keeps errno. */
shim_waited shim_hooked_pause(shim_hook hook, int64_t *pause);
/* Whether the library keeps retrying after its request ended. The caller then shuts its sockets down, or the library would
 * retry endlessly. */
bool shim_hooked_is_deaf(void);
/* Whether it retries even after that: it waits for something other than its sockets (a pause, its own rate limit), or keeps
 * finding a socket that is not ready. Only a call that fails as a whole stops it. */
bool shim_hooked_is_hopeless(void);
/* Called when the caller's condition holds without a wait. Returns false if the library is hopeless anyway
 * (shim_hooked_is_hopeless): the call fails. */
bool shim_hooked_may_find(void);

#endif
