/* The one place where a request waits without its thread. */
#ifndef SVC_SHIM_PARK_H
#define SVC_SHIM_PARK_H

#include "fiber/fiber.h"

#include <stdbool.h>
#include <stdint.h>

/* Waits until one member of the set ends the wait, or the time limit of the request, which counts as a moment. Returns at
 * once, without letting anybody else run, if a completion of the set is complete or a descriptor needs no waiting. */
shim_woken shim_park(const shim_wait_set *set);
/* Waits for a moment on the monotonic clock. */
shim_woken_by shim_park_until(int64_t deadline);
/* Before the next try of what cannot be waited for otherwise; each pause is longer than the one before it, up to a bound,
 * and the first follows 0. False: the caller is to block. */
bool shim_park_briefly(int64_t *pause);
void shim_reactor_install(void);
void shim_reactor_close(void);

#endif
