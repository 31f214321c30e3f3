/* Waiting for tasks, and unpacking their answers. */
#ifndef SVC_SHIM_AWAIT_H
#define SVC_SHIM_AWAIT_H

#include "async/task/task_object.h"
#include "compat.h"
#include "shim.h"

#include <stdbool.h>

/* The outcome of a wait for tasks. */
typedef enum shim_awaited {
    SHIM_AWAITED,
    SHIM_AWAIT_TIMED_OUT,
    /* An exception is thrown, or the script ends by its time limit. */
    SHIM_AWAIT_STOPPED,
} shim_awaited;

/* Waits until a watch of this mode is over. `winner` is the index of the task that ended it, or `count`. */
shim_awaited shim_await(shim_task *const *tasks, size_t count, shim_watch_mode mode, int64_t deadline, size_t *winner);
/* Returns the state of a task, without waiting. */
shim_task_state shim_state_of(const task_object *object);
/* Returns the answer of a settled task. Returns false if it is an exception, which is thrown. */
bool shim_answer(task_object *object, zval *result);

#endif
