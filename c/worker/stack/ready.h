/* Requests whose wait is over. */
#ifndef SVC_SHIM_READY_H
#define SVC_SHIM_READY_H

#include "worker/stack/fiber.h"

#include <stddef.h>

/* Ends the wait of a parked request, whatever else it was waiting for. */
void shim_wake(shim_fiber *fiber, shim_woken_by by, unsigned member);
/* Removes and returns the request that has been ready for the longest time; NULL if there is none. */
shim_fiber *shim_ready_pop(void);
size_t shim_ready_count(void);

#endif
