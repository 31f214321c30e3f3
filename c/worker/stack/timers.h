/* Requests that wait for a deadline. */
#ifndef SVC_SHIM_TIMERS_H
#define SVC_SHIM_TIMERS_H

#include "worker/stack/fiber.h"

#include <stdbool.h>

/* Adds the fiber's deadline. Returns false if out of memory. */
bool shim_timer_add(shim_fiber *fiber);
/* Removes the fiber's deadline; harmless if it has none. */
void shim_timer_remove(shim_fiber *fiber);
/* Returns the fiber with the earliest deadline; NULL if there is none. */
shim_fiber *shim_timer_first(void);
void shim_timers_close(void);

#endif
