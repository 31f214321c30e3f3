/* Tasks that have been cancelled. */
#ifndef SVC_SHIM_CANCEL_H
#define SVC_SHIM_CANCEL_H

#include "fiber/fiber.h"

#include <stdbool.h>

/* Whether the current request is a task that has been cancelled. */
bool shim_is_cancelled(void);
/* Throws what a script gets where its task waits after it was cancelled. */
extern void (*shim_throw_cancelled)(void);
/* A request parks, and goes on: only a parked one is woken by shim_tasks_look. */
void shim_cancel_watch(shim_fiber *fiber);
void shim_cancel_unwatch(shim_fiber *fiber);

#endif
