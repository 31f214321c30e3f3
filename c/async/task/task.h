/* Svc\async() and Svc\Task. */
#ifndef SVC_ASYNC_TASK_H
#define SVC_ASYNC_TASK_H

#include "compat.h"
#include "php/context/context.h"
#include "shim.h"

/* ---- The first number in the payload of a failed task ---- */

typedef enum shim_answer_kind {
    /* An exception of its function: a TaskException. */
    SHIM_ANSWER_FAILURE = 0,
    /* A value that could not be sent: a TransferException. */
    SHIM_ANSWER_TRANSFER,
} shim_answer_kind;

/* ---- Svc\Task (task_object.c) ---- */

typedef struct shim_task_object {
    /* NULL in an object that was created without a task. */
    shim_task *task;
    bool is_detached;
    /* The answer: the result, or the exception. Undefined before it is first requested. */
    zval result;
    zend_object *failure;
    zend_object std;
} shim_task_object;

extern zend_class_entry *shim_class_task;

/* Gives a new object its task, and takes over the handle. */
void shim_task_object_init(zend_object *object, shim_task *task, uint64_t id);
shim_task_object *shim_task_object_of(zend_object *object);
void shim_task_class_register(const zend_function_entry *methods);

/* ---- Waiting for tasks, and unpacking their answers (await.c) ---- */

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
shim_task_state shim_task_state_read(const shim_task_object *object);
/* Returns the answer of a settled task. Returns false if it is an exception, which is thrown. */
bool shim_task_answer(shim_task_object *object, zval *result);

/* ---- Awaiting one task, or several together (await_many.c) ---- */

/* Implements Task::await(): returns its answer, or throws an exception. */
void shim_await_one(zval *result, shim_task_object *task, int64_t deadline);
/* Implements await_all(), await_any() and await_race(), by mode. `key` is the reference that receives the winner's key,
 * or NULL. */
void shim_await_many(zval *result, zval *tasks, shim_watch_mode mode, int64_t deadline, zval *key);

/* ---- The functions and methods of the async pool (functions.c) ---- */

extern const shim_request_hooks shim_async_request_hooks;

/* ---- The tasks that a request has dispatched (owned_tasks.c) ---- */

/* Makes room for one more task, before it is dispatched. Returns false if there is no memory. */
bool shim_owned_tasks_reserve(shim_owned_tasks *tasks);
/* Adds a dispatched task; the list owns the handle `task`. */
void shim_owned_tasks_add(shim_owned_tasks *tasks, shim_task *task);
/* The request is ending: cancels open tasks, and refuses further dispatches. */
void shim_owned_tasks_cancel(shim_context *context);
/* Waits for stranded tasks, for at most five seconds, and drops all handles. */
void shim_owned_tasks_end(shim_context *context);
/* The request is lost: cancels open tasks and drops all handles without waiting. */
void shim_owned_tasks_lose(shim_context *context);

/* Call after the script and its destructors have ended, and its output has been flushed. */
void shim_tasks_end(shim_context *context);

/* ---- The running side of a task (running.c) ---- */

void shim_task_runner_install(void);

#endif
