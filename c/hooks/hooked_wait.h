/* How a call waits that has a hook. */
#ifndef SVC_SHIM_HOOKED_WAIT_H
#define SVC_SHIM_HOOKED_WAIT_H

#include "fiber/wait_set.h"
#include "shim.h"

#include <stdint.h>

/* What the caller does next. */
typedef enum shim_waited {
    /* Something has happened, perhaps not what the caller waits for: it looks, and waits again if need be. */
    SHIM_WAITED_LOOK = 0,
    /* A descriptor of the set has been closed. Its number may belong to another file by now. */
    SHIM_WAITED_CLOSED,
    /* The deadline of the set has passed. */
    SHIM_WAITED_EXPIRED,
    /* The request is to wait no more: its time limit has expired, or it is a task that has been cancelled. The call
     * fails with an error that its library does not try again after. */
    SHIM_WAITED_OVER,
    /* It cannot wait without blocking its thread. This has been counted; the caller calls libc. */
    SHIM_WAITED_BLOCK,
} shim_waited;

/* Whether a wait would begin, for those whose preparations cost something: SHIM_WAITED_LOOK if it would, otherwise what it
 * would return, and has counted. */
shim_waited shim_hooked_may_wait(shim_hook hook);
/* Keeps errno. */
shim_waited shim_hooked_wait(shim_hook hook, const shim_wait_set *set);
/* Waits for poll() events of one descriptor; a deadline of 0 is none. */
shim_waited shim_hooked_wait_for(shim_hook hook, int descriptor, short events, int64_t deadline);
/* Pauses before the next attempt at something that nothing tells the end of. Starts from 0; each pause is longer than
 * the previous one, up to a limit. Keeps errno. */
shim_waited shim_hooked_pause(shim_hook hook, int64_t *pause);
/* Whether a library has been told again and again that its request is over, and asks nevertheless. What it waits for
 * has to be closed for it, or it would ask forever. */
bool shim_hooked_is_deaf(void);
/* Whether it asks even then: what it waits for is none of its sockets (a pause, a limit of its speed), or one that it
 * looks at in vain. Only a call that fails as a whole ends that. */
bool shim_hooked_is_hopeless(void);
/* The caller has found what it looks for, and needs not wait. Returns false if it is hopeless nevertheless. */
bool shim_hooked_may_find(void);

#endif
