/* The one place where a request waits without its thread. */
#ifndef SVC_SHIM_PARK_H
#define SVC_SHIM_PARK_H

#include "fiber/fiber.h"

#include <stdbool.h>
#include <stdint.h>

/* Waits for `events` (of poll()) on `descriptor`, or for the moment `deadline` on the monotonic clock (0: none). The
 * request's own time limit ends the wait too, if `limited`. */
shim_woken shim_park(int descriptor, short events, int64_t deadline, bool limited);
/* Before the next try of what cannot be waited for otherwise; each pause is longer than the one before it, up to a bound,
 * and the first follows 0. False: the caller is to block. */
bool shim_park_briefly(int64_t *pause);
void shim_reactor_install(void);
void shim_reactor_close(void);

#endif
