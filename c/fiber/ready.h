/* Requests whose wait is over. */
#ifndef SVC_SHIM_READY_H
#define SVC_SHIM_READY_H

#include "fiber/fiber.h"

#include <stddef.h>

void shim_ready_push(shim_fiber *fiber);
/* NULL: nobody is ready. */
shim_fiber *shim_ready_pop(void);
size_t shim_ready_count(void);

#endif
