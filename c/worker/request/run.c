/* One request of a worker, from its beginning to its end, on the current stack.
 *
 * It runs the steps of php_request_startup and php_request_shutdown that concern a request, without those that concern
 * the thread: modules stay started, code stays loaded, memory stays allocated.
 *
 * A bailout (fatal error, memory or time limit) ends its request (worker/engine/guard.c). Memory that its frames held
 * is not freed, so the worker is tainted from then on: the host lets the other requests end, and then boots the worker
 * again. */
#include "compat.h"
#include "php/context/context.h"
#include "worker/connections/connections.h"
#include "worker/engine/engine.h"
#include "worker/request/request.h"
#include "worker/stack/stack.h"
#include "worker/state/state.h"

__thread shim_request_handler shim_worker_handler;
void (*shim_run_task)(shim_fiber *fiber);

static void start_output(void)
{
    php_output_activate();
    if (PG(output_handler) && PG(output_handler)[0]) {
        zval handler;
        ZVAL_STRING(&handler, PG(output_handler));
        php_output_start_user(&handler, 0, PHP_OUTPUT_HANDLER_STDFLAGS);
        zval_ptr_dtor(&handler);
    } else if (PG(output_buffering)) {
        zend_long size = PG(output_buffering) > 1 ? PG(output_buffering) : 0;
        php_output_start_user(NULL, (size_t)size, PHP_OUTPUT_HANDLER_STDFLAGS);
    } else if (PG(implicit_flush)) {
        php_output_set_implicit_flush(1);
    }
}

/* Gives the request its own references to the boot script's objects before input from the client could cause a bailout. */
static void begin(shim_fiber *fiber)
{
    if (fiber->context.is_task) {
        shim_variables_begin(&fiber->state.variables);
    }
    shim_globals_begin();
    fiber->state.globals_begun = true;
    shim_executor_begin();
    fiber->state.executor_begun = true;
    shim_modules_begin(&fiber->state.modules_begun);
    SG(server_context) = &fiber->context;
    fiber->may_wait = fiber->has_own_stack;
}

/* Describes the request to PHP, and parses its form. */
static void read_request(shim_fiber *fiber)
{
    shim_files files = {0};
    if (!shim_request_info_fill(&fiber->strings, fiber->context.request, &files)) {
        zend_error_noreturn(E_ERROR, "Out of memory");
    }
    php_output_activate();
    sapi_activate();
    SG(request_info).headers_only = 0;
    if (SG(request_info).request_body != NULL) {
        fiber->context.body = SG(request_info).request_body->res;
    }
    if (PG(expose_php)) {
        sapi_add_header(SAPI_PHP_VERSION_HEADER, sizeof(SAPI_PHP_VERSION_HEADER) - 1, 1);
    }
    start_output();
    shim_superglobals_begin();
}

/* PHP's messages about the form are messages of the request's startup, as in classic mode: displayed only with
 * display_startup_errors, and not passed to the script's error handler. */
static bool read_request_silently(shim_fiber *fiber, const shim_checkpoint *here)
{
    zval handler;
    ZVAL_COPY_VALUE(&handler, &EG(user_error_handler));
    ZVAL_UNDEF(&EG(user_error_handler));
    PG(during_request_startup) = true;
    const bool ended = shim_step(here, read_request, fiber);
    PG(during_request_startup) = false;
    ZVAL_COPY_VALUE(&EG(user_error_handler), &handler);
    return ended;
}

static void start_extensions(shim_fiber *fiber)
{
    shim_modules_start(&fiber->state.modules_started);
}

static void call_handler(shim_fiber *fiber)
{
    (void)fiber;
    zval result;
    ZVAL_UNDEF(&result);
    zend_fcall_info call = shim_worker_handler.call;
    call.retval = &result;
    zend_fcall_info_cache *cache = &shim_worker_handler.cache;
    bool is_trampoline = cache->function_handler != NULL &&
                      (cache->function_handler->common.fn_flags & ZEND_ACC_CALL_VIA_TRAMPOLINE) != 0;
    (void)zend_call_function(&call, is_trampoline ? NULL : cache);
    zval_ptr_dtor(&result);
}

/* Runs the worker's own cleanup outside any request. It may run script code. */
static void clean_up(void)
{
    php_output_activate();
    php_output_set_status(PHP_OUTPUT_DISABLED);
    shim_collector_run();
    /* There is no response for headers that destructors have set. */
    zend_llist_clean(&SG(sapi_headers).headers);
}

static bool serve_client(shim_fiber *fiber, const shim_checkpoint *here)
{
    return read_request_silently(fiber, here) && shim_step(here, start_extensions, fiber) &&
           shim_step(here, fiber->context.is_task ? shim_run_task : call_handler, fiber);
}

void shim_request_run(shim_fiber *fiber)
{
    shim_context *before = shim_current;
    shim_current = &fiber->context;
    fiber->phase = SHIM_PHASE_RUNNING;
    fiber->state.variables.begun = false;
    fiber->state.globals_begun = false;
    fiber->state.executor_begun = false;
    fiber->state.modules_begun = 0;
    fiber->state.modules_started = 0;
    fiber->state.loops.is_own = fiber->has_own_stack;
    shim_loading_begin();
    shim_own_worker.in_flight++;
    shim_current_span = 0;
    shim_checkpoint here = shim_checkpoint_here();
    zend_set_timeout(EG(timeout_seconds), 1);
    bool ended = shim_step(&here, begin, fiber);
    if (ended && fiber->context.request != NULL) {
        shim_own_worker.requests++;
        shim_opcache_request_begin(fiber->context.time);
        ended = serve_client(fiber, &here);
    } else if (ended) {
        shim_modules_mark_started(&fiber->state.modules_started);
        ended = shim_step_call(&here, clean_up);
        if (shim_own_worker.is_looping) {
            /* The connections that destructors have used. */
            (void)shim_step_call(&here, shim_connections_end_own_stack);
        }
    }
    fiber->context.fatal = fiber->context.fatal || !ended;
    fiber->context.request = NULL;
    shim_request_finish(fiber, &here);
    shim_own_worker.in_flight--;
    fiber->phase = SHIM_PHASE_IDLE;
    shim_current = before;
    shim_fiber_release(fiber);
}
