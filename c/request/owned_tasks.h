/* The tasks that a request has dispatched. */
#ifndef SVC_SHIM_OWNED_TASKS_H
#define SVC_SHIM_OWNED_TASKS_H

#include "context/context.h"
#include "shim.h"

#include <stdbool.h>

/* Makes room for one more task, before it is dispatched. Returns false if there is no memory. */
bool shim_owned_tasks_reserve(shim_owned_tasks *tasks);
/* The request has dispatched a task; `task` is an end of the list's own. */
void shim_owned_tasks_add(shim_owned_tasks *tasks, shim_task *task);
/* The request is ending: cancels what is open, and lets the request dispatch no more. */
void shim_owned_tasks_cancel(shim_owned_tasks *tasks);
/* Whether the end of the request waits for any of them. */
bool shim_owned_tasks_hold(const shim_owned_tasks *tasks);
/* Waits for those that were stranded, for at most five seconds, and gives all back. */
void shim_owned_tasks_end(shim_owned_tasks *tasks);
/* The request is lost: cancels what is open, waits for nothing, and gives all back. */
void shim_owned_tasks_lose(shim_owned_tasks *tasks);

#endif
