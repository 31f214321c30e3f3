/* Requests that wait for a moment. */
#ifndef SVC_SHIM_TIMERS_H
#define SVC_SHIM_TIMERS_H

#include "fiber/fiber.h"

#include <stdbool.h>

/* Waits for the fiber's deadline. Returns false if out of memory. */
bool shim_timer_add(shim_fiber *fiber);
/* Harmless if the fiber is not waiting for a moment. */
void shim_timer_remove(shim_fiber *fiber);
/* The fiber with the earliest moment; NULL if none waits for one. */
shim_fiber *shim_timer_first(void);
void shim_timers_close(void);

#endif
