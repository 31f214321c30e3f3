/* Requests on their own stacks. */
#ifndef SVC_SHIM_CARRIER_H
#define SVC_SHIM_CARRIER_H

#include "compat.h"
#include "php/context/context.h"
#include "shim.h"
#include "worker/stack/fiber.h"

/* Runs `serve` on the request's own stack until it waits or ends. If there is no memory for the stack, the request ends
 * at once. */
shim_progress shim_fiber_start(shim_context context, void (*serve)(shim_fiber *fiber));
/* Switches to the loop until the fiber is resumed. */
void shim_fiber_switch_out(shim_fiber *fiber);
/* Returns the reason why the running request cannot wait without blocking its thread; SHIM_NO_OBSTACLE if it can. */
shim_obstacle shim_fiber_obstacle(void);
bool shim_fiber_may_park(void);
/* The loop has failed and resumes no more requests: returns unfinished requests to the host, and then calls `lose` for
 * each. */
void shim_fibers_lose(void (*lose)(shim_fiber *fiber));
/* The worker serves no more requests: frees the idle carriers. */
void shim_fibers_forget(void);

#endif
