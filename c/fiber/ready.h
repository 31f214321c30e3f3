/* Requests whose wait is over. */
#ifndef SVC_SHIM_READY_H
#define SVC_SHIM_READY_H

#include "fiber/fiber.h"

#include <stddef.h>

/* The wait of a parked request is over, whatever else it has waited for. */
void shim_wake(shim_fiber *fiber, shim_woken_by by, unsigned member);
/* NULL: nobody is ready. */
shim_fiber *shim_ready_pop(void);
size_t shim_ready_count(void);

#endif
