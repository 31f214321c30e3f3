/* The tasks that a request has dispatched, from their dispatch to the end of the request.
 *
 * A task does not outlive its request, unless it was detached: open tasks are cancelled when the request has ended. A
 * task that its request no longer waits for may hold a lock or a file that others need, and cannot be stopped inside a
 * call; the request's end waits up to five seconds for all such tasks together.
 *
 * Invariants. The list holds a handle of each task that is not settled and not detached, and of each stranded task; it
 * may also hold handles of other tasks. Its memory does not belong to the request: it survives a bailout. */
#include "async/task/task.h"
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/libc/libc.h"
#include "worker/stack/stack.h"

#include <stdlib.h>

enum { FIRST_SWEEP = 64 };

#define STRANDED_WAIT_NS INT64_C(5000000000)

/* Drops the handles that the end of the request does not need; on average, each task is examined twice. */
static void sweep(shim_owned_tasks *tasks)
{
    size_t kept = 0;
    for (size_t i = 0; i < tasks->count; i++) {
        if (shim_host.task.is_owned(tasks->list[i])) {
            tasks->list[kept++] = tasks->list[i];
        } else {
            shim_host.task.drop(tasks->list[i]);
        }
    }
    tasks->count = kept;
    tasks->sweep_at = kept * 2 > FIRST_SWEEP ? kept * 2 : FIRST_SWEEP;
}

bool shim_owned_tasks_reserve(shim_owned_tasks *tasks)
{
    if (tasks->count >= (tasks->sweep_at > 0 ? tasks->sweep_at : FIRST_SWEEP)) {
        sweep(tasks);
    }
    return SHIM_RESERVE(*tasks);
}

void shim_owned_tasks_add(shim_owned_tasks *tasks, shim_task *task)
{
    tasks->list[tasks->count++] = task;
}

void shim_owned_tasks_cancel(shim_context *context)
{
    shim_owned_tasks *const tasks = &context->tasks;
    tasks->is_over = true;
    for (size_t i = 0; i < tasks->count; i++) {
        /* Detached tasks are not cancelled. */
        if (shim_host.task.is_owned(tasks->list[i])) {
            (void)shim_host.task.cancel(tasks->list[i]);
        }
    }
}

/* Whether the end of the request waits for any of the tasks. */
static bool holds_request(const shim_owned_tasks *tasks)
{
    size_t i = 0;
    while (i < tasks->count && !shim_host.task.is_owned(tasks->list[i])) {
        i++;
    }
    return i < tasks->count;
}

static void wait_for_stranded(const shim_owned_tasks *tasks)
{
    shim_completion *completion = NULL;
    shim_task_watch *watch = shim_host.task.watch_stranded(tasks->list, tasks->count, &completion);
    if (watch == NULL) {
        return;
    }
    const shim_wait_set set = {
        .completions = &completion,
        .completion_count = 1,
        .deadline = shim_now() + STRANDED_WAIT_NS,
        .is_unlimited = true,
    };
    if (shim_park(&set).by == SHIM_NEVER_PARKED) {
        (void)shim_block(&set);
    }
    shim_host.completion.drop(completion);
    shim_host.task.unwatch(watch);
}

static void give_back(shim_owned_tasks *tasks)
{
    for (size_t i = 0; i < tasks->count; i++) {
        shim_host.task.drop(tasks->list[i]);
    }
    free(tasks->list);
    *tasks = (shim_owned_tasks){.is_over = true};
}

void shim_owned_tasks_end(shim_context *context)
{
    if (context->tasks.count > 0) {
        wait_for_stranded(&context->tasks);
    }
    give_back(&context->tasks);
}

void shim_owned_tasks_lose(shim_context *context)
{
    shim_owned_tasks_cancel(context);
    give_back(&context->tasks);
}

/* ---- the end of a request of classic mode ---- */

/* The tasks of a request of classic mode, when it ends; those of worker mode are in worker/request/ending.c.
 *
 * PHP has called the shutdown functions and destructors, and has flushed the output. If a task is stranded, its request
 * waits; the client has its response before the wait, and the session is available to other requests. The request's
 * other resources are freed after the wait. */

static void release_session(void)
{
    zend_try {
        if (shim_session_is_active()) {
            zval name, nothing;
            ZVAL_STRING(&name, "session_write_close");
            ZVAL_UNDEF(&nothing);
            (void)call_user_function(NULL, NULL, &name, &nothing, 0, NULL);
            zval_ptr_dtor(&nothing);
            zval_ptr_dtor(&name);
        }
    } zend_end_try();
}

static void end_response(shim_context *context)
{
    zend_try {
        (void)sapi_send_headers();
    } zend_end_try();
    if (context->host != NULL) {
        shim_host.worker.ended(context->host, shim_outcome_of(context));
        context->finished = true;
    }
}

void shim_tasks_end(shim_context *context)
{
    if (context->is_boot || context->owner != NULL || context->tasks.is_over) {
        return;
    }
    shim_owned_tasks_cancel(context);
    if (holds_request(&context->tasks)) {
        release_session();
        end_response(context);
    }
    shim_owned_tasks_end(context);
}
