/* Awaiting one task, or several together. */
#ifndef SVC_SHIM_AWAIT_MANY_H
#define SVC_SHIM_AWAIT_MANY_H

#include "async/task/task_object.h"
#include "compat.h"
#include "shim.h"

/* Implements Task::await(): returns its answer, or throws an exception. */
void shim_await_one(zval *result, task_object *task, int64_t deadline);
/* Implements await_all(), await_any() and await_race(), by mode. `key` is the reference that receives the winner's key,
 * or NULL. */
void shim_await_many(zval *result, zval *tasks, shim_watch_mode mode, int64_t deadline, zval *key);

#endif
