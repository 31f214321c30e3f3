/* The only place where a request waits without blocking its thread. */
#ifndef SVC_SHIM_PARK_H
#define SVC_SHIM_PARK_H

#include "worker/stack/fiber.h"

#include <stdbool.h>
#include <stdint.h>

/* Waits until a member of the set ends the wait. The time limit of the request ends it too, and counts as a deadline.
 * Returns immediately, without running other requests, if a completion of the set is complete or if a descriptor cannot
 * be watched. */
shim_woken shim_park(const shim_wait_set *set);
/* Waits like shim_park() for a request that cannot park, and blocks the thread. Ends only by a completion, the deadline
 * or the time limit; the set has no descriptors. */
shim_woken_by shim_block(const shim_wait_set *set);
/* Waits until a deadline on the monotonic clock. */
shim_woken_by shim_park_until(int64_t deadline, shim_wait_purpose purpose);
/* Pauses before the next attempt at an operation that cannot be waited for in any other way. `pause` starts at 0; each
 * pause is longer than the previous one, up to a limit. Returns false if the caller has to block. A pause ends at once
 * if the request is a cancelled task. */
bool shim_park_briefly(int64_t *pause, shim_wait_purpose purpose);
/* Advances `pause` to the length of the next pause, in nanoseconds. */
void shim_pause_lengthen(int64_t *pause);
void shim_reactor_install(void);
void shim_reactor_close(void);

#endif
