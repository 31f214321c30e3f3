/* The tasks that a request has dispatched. */
#ifndef SVC_SHIM_OWNED_TASKS_H
#define SVC_SHIM_OWNED_TASKS_H

#include "php/context/context.h"
#include "shim.h"

#include <stdbool.h>

/* Makes room for one more task, before it is dispatched. Returns false if there is no memory. */
bool shim_owned_tasks_reserve(shim_owned_tasks *tasks);
/* Adds a dispatched task; the list owns the handle `task`. */
void shim_owned_tasks_add(shim_owned_tasks *tasks, shim_task *task);
/* The request is ending: cancels open tasks, and refuses further dispatches. */
void shim_owned_tasks_cancel(shim_owned_tasks *tasks);
/* Whether the end of the request waits for any of the tasks. */
bool shim_owned_tasks_hold(const shim_owned_tasks *tasks);
/* Waits for stranded tasks, for at most five seconds, and drops all handles. */
void shim_owned_tasks_end(shim_owned_tasks *tasks);
/* The request is lost: cancels open tasks and drops all handles without waiting. */
void shim_owned_tasks_lose(shim_owned_tasks *tasks);

#endif
