/* The tasks of a request of classic mode, when it ends; those of worker mode are in worker/request/ending.c.
 *
 * PHP has called the shutdown functions and destructors, and has flushed the output. If a task is stranded, its request
 * waits; the client has its response before the wait, and the session is available to other requests. The request's
 * other resources are freed after the wait. */
#include "async/task/owned_tasks.h"
#include "async/task/tasks_end.h"
#include "compat.h"
#include "php/bailout/session.h"
#include "php/context/context.h"
#include "php/context/host.h"

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

void shim_tasks_end(void)
{
    shim_context *context = shim_current;
    if (context == NULL || context->is_boot || context->owner != NULL || context->tasks.is_over) {
        return;
    }
    shim_owned_tasks_cancel(&context->tasks);
    if (shim_owned_tasks_hold(&context->tasks)) {
        release_session();
        end_response(context);
    }
    shim_owned_tasks_end(&context->tasks);
}
