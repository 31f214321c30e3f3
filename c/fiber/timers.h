/* Requests that wait for a moment. */
#ifndef SVC_SHIM_TIMERS_H
#define SVC_SHIM_TIMERS_H

#include "fiber/fiber.h"

#include <stdbool.h>

/* Waits for its deadline. False: there is no memory. */
bool shim_timer_add(shim_fiber *fiber);
/* Harmless if it does not wait for a moment. */
void shim_timer_remove(shim_fiber *fiber);
/* Whose moment comes first; NULL: nobody waits for one. */
shim_fiber *shim_timer_first(void);
void shim_timers_close(void);

#endif
