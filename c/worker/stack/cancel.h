/* Cancelled tasks. */
#ifndef SVC_SHIM_CANCEL_H
#define SVC_SHIM_CANCEL_H

#include "worker/stack/fiber.h"

#include <stdbool.h>

/* Whether the current request is a task that has been cancelled. */
bool shim_is_cancelled(void);
/* Throws the exception for a wait of a cancelled task. */
extern void (*shim_throw_cancelled)(void);
/* Call when a request parks and when it continues: shim_tasks_look wakes only parked ones. */
void shim_cancel_watch(shim_fiber *fiber);
void shim_cancel_unwatch(shim_fiber *fiber);

#endif
