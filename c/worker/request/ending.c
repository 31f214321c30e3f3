/* How a request of worker mode ends.
 *
 *   handler returned, exited, threw or bailed out
 *     -> shutdown functions -> the worker's objects are destructed (silent exit())
 *     -> fibers that are suspended inside a call of PHP are destroyed -> buffers end
 *     -> extensions end (sessions are written) -> the response is complete
 *     -> the remains of the request are freed, its destructors run -> its tasks are cancelled
 *     -> its connections are reset, and the next request that waits for them gets them
 *     -> kept instances that it owned go to the next request
 *     -> tasks that it has abandoned and that cannot be stopped are waited for -> its body is closed -> baseline
 *     -> the request is returned to the host
 *
 * Invariants. Each of these is one step or several: a bailout out of one does not skip the next. The response is decided
 * before anything is freed. The time limit covers everything up to the last code of the script, and restarts after the
 * response. At the end, the baseline snapshot is in place, whatever happened in the steps. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"
#include "php/process/process.h"
#include "php/request/request.h"
#include "shim.h"
#include "worker/connections/connections.h"
#include "worker/connections/owners/owners.h"
#include "worker/connections/instances/instances.h"
#include "worker/engine/engine.h"
#include "worker/request/request.h"
#include "worker/stack/stack.h"
#include "worker/state/state.h"

/* ---- a step ---- */

/* A step of a request of worker mode: code that may run script code, and may end by a bailout or an exception.
 *
 * An uncaught exception is reported on behalf of the step's request, to the script's own handler or to the
 * log; exit() is not an exception. */

/* Calls the user's exception handler like zend_user_exception_handler(), which drops exceptions of the handler unless
 * it is called at the bottom of the stack. A handler that does not return is not called again. */
static void call_exception_handler(void)
{
    zend_object *exception = EG(exception);
    zval argument, result, handler;
    EG(exception) = NULL;
    ZVAL_OBJ(&argument, exception);
    ZVAL_COPY_VALUE(&handler, &EG(user_exception_handler));
    zend_stack_push(&EG(user_exception_handlers), &handler);
    ZVAL_UNDEF(&EG(user_exception_handler));
    ZVAL_UNDEF(&result);
    bool called = call_user_function(NULL, NULL, &handler, &result, 1, &argument) == SUCCESS;
    zval_ptr_dtor(&result);
    if (called) {
        OBJ_RELEASE(exception);
    } else {
        EG(exception) = exception;
    }
    zval *before = zend_stack_top(&EG(user_exception_handlers));
    if (EG(exception) == NULL && Z_TYPE(EG(user_exception_handler)) == IS_UNDEF && before != NULL) {
        ZVAL_COPY_VALUE(&EG(user_exception_handler), before);
        zend_stack_del_top(&EG(user_exception_handlers));
    }
}

/* Reports an uncaught exception to the script's handler or to the log; exit() is ignored. */
static void report_exception(void)
{
    if (EXPECTED(EG(exception) == NULL)) {
        return;
    }
    if (!shim_is_exit(EG(exception)) && Z_TYPE(EG(user_exception_handler)) != IS_UNDEF) {
        call_exception_handler();
    }
    if (EG(exception) == NULL) {
        return;
    }
    if (shim_is_exit(EG(exception))) {
        if (shim_current != NULL) {
            shim_current->exited = true;
        }
        zend_clear_exception();
    } else {
        (void)zend_exception_error(EG(exception), E_ERROR);
    }
}

typedef struct call_of_step {
    void (*step)(shim_fiber *);
    shim_fiber *fiber;
    /* Called instead of a step. */
    void (*function)(void);
} call_of_step;

static void call_step(void *argument)
{
    const call_of_step *call = argument;
    if (call->function != NULL) {
        call->function();
    } else {
        call->step(call->fiber);
    }
    report_exception();
}

bool shim_step(const shim_checkpoint *here, void (*step)(shim_fiber *), shim_fiber *fiber)
{
    call_of_step call = {.step = step, .fiber = fiber};
    return shim_guard(here, call_step, &call);
}

bool shim_step_call(const shim_checkpoint *here, void (*function)(void))
{
    call_of_step call = {.function = function};
    return shim_guard(here, call_step, &call);
}

/* ---- before the response is complete ---- */

typedef struct call_of_function {
    php_shutdown_function_entry *function;
    bool goes_on;
} call_of_function;

static void call_shutdown_function(void *argument)
{
    call_of_function *call = argument;
    zval result;
    ZVAL_UNDEF(&result);
    SHIM_CALL_SHUTDOWN_FUNCTION(call->function, &result);
    zval_ptr_dtor(&result);
    call->goes_on = EG(exception) == NULL || !zend_is_unwind_exit(EG(exception));
    report_exception();
}

/* Calls each shutdown function, whatever happened in the previous ones; exit() skips the rest. */
static void call_shutdown_functions(const shim_checkpoint *here)
{
    /* A shutdown function may register another one, which is called too. */
    for (uint32_t i = 0; BG(user_shutdown_function_names) != NULL && i < BG(user_shutdown_function_names)->nNumUsed; i++) {
        zval *entry = &BG(user_shutdown_function_names)->arPacked[i];
        if ((HT_FLAGS(BG(user_shutdown_function_names)) & HASH_FLAG_PACKED) == 0) {
            entry = &BG(user_shutdown_function_names)->arData[i].val;
        }
        if (Z_TYPE_P(entry) == IS_UNDEF) {
            continue;
        }
        call_of_function call = {.function = Z_PTR_P(entry)};
        if (!shim_guard(here, call_shutdown_function, &call) || !call.goes_on) {
            return;
        }
    }
}

/* Whether a script has exited with a failure and without output, while no objects of other requests exist. Elsewhere,
 * PHP ends together with such a script, and long-lived objects explain the reason in their destructors (Symfony's
 * dd()). A task has no client to send that output to. */
static bool should_destruct_objects(const shim_fiber *fiber)
{
    zval length;
    ZVAL_LONG(&length, 0);
    const shim_context *context = &fiber->context;
    return context->exited && !context->is_task && !context->finished && EG(exit_status) != 0 && !SG(headers_sent) &&
           (php_output_get_length(&length) != SUCCESS || Z_LVAL(length) == 0) && shim_own_worker.in_flight == 1;
}

static void destruct_objects(void)
{
    /* Once destructed, the worker's objects are useless. */
    shim_own_worker.exit_scheduled = true;
    zend_objects_store_call_destructors(&EG(objects_store));
}

/* The number of fibers that are ended beyond those that exist at first: their `finally` blocks may leave others. */
enum { FIBERS_MORE = 16 };

static void end_fiber(shim_fiber *fiber)
{
    shim_left_fiber_end(shim_left_fiber(fiber->context.serial));
}

static void end_fibers(shim_fiber *fiber, const shim_checkpoint *here)
{
    const uint64_t serial = fiber->context.serial;
    if (shim_stacks_of_scripts() == 0) {
        return;
    }
    for (size_t count = shim_stacks_of_scripts() + FIBERS_MORE; shim_left_fiber(serial) != NULL; count--) {
        if (count == 0) {
            shim_left_fibers_drop(serial);
            return;
        }
        (void)shim_step(here, end_fiber, fiber);
    }
}

static void stop_extensions(shim_fiber *fiber)
{
    shim_modules_end(&fiber->state.modules_started);
}

/* Without the output layer, PHP would write the output of late destructors to the server's own stderr. */
static void end_output(void)
{
    php_output_deactivate();
    php_output_activate();
    php_output_set_status(PHP_OUTPUT_DISABLED);
}

static void forget_object(shim_fiber *fiber)
{
    shim_request_object_detach(&fiber->context);
}

static shim_outcome outcome_of(const shim_context *context)
{
    const shim_outcome outcome = shim_outcome_of(context);
    return outcome == SHIM_FATAL && context->bailed_out ? SHIM_LOST : outcome;
}

/* Resets the flags that a bailout has left set. */
static void recover(shim_fiber *fiber, const shim_checkpoint *here)
{
    if (fiber->context.fatal || fiber->context.bailed_out) {
        /* The bailout may have skipped the end of a connect. */
        fiber->lends_nothing = false;
        (void)shim_step_call(here, shim_bailout_recover);
    }
}

/* Whether the script runs its own loop, and continues between requests (frankenphp_handle_request()). */
static bool is_of_own_loop(const shim_fiber *fiber)
{
    return !fiber->has_own_stack && fiber->context.owner != NULL;
}

static void complete_response(shim_fiber *fiber, const shim_checkpoint *here)
{
    shim_context *context = &fiber->context;
    shim_answer_time_limit(context);
    zend_llist_clean(&PG(tick_functions));
    recover(fiber, here);
    context->is_in_last_code = true;
    call_shutdown_functions(here);
    if (is_of_own_loop(fiber)) {
        (void)shim_step_call(here, shim_first_request_boot_take);
    }
    if (should_destruct_objects(fiber)) {
        (void)shim_step_call(here, destruct_objects);
    }
    end_fibers(fiber, here);
    (void)shim_step_call(here, php_output_end_all);
    recover(fiber, here);
    while (fiber->state.modules_started > 0) {
        (void)shim_step(here, stop_extensions, fiber);
    }
    end_fibers(fiber, here);
    (void)shim_step_call(here, end_output);
    const shim_outcome outcome = outcome_of(context);
    if (Z_TYPE(context->object) != IS_UNDEF) {
        (void)shim_step(here, forget_object, fiber);
    }
    void *host = context->host;
    context->host = NULL;
    context->finished = true;
    if (host != NULL) {
        shim_host.worker.ended(host, outcome);
    }
}

/* ---- after the response ---- */

/* Objects that remain after these rounds are freed at the end of the worker. */
enum { DROPS_MAX = 16 };

static void drop_once(shim_fiber *fiber)
{
    if (fiber->state.globals_begun) {
        shim_globals_drop();
    }
    if (fiber->state.executor_begun) {
        shim_executor_drop();
    }
    shim_superglobals_end();
    shim_variables_drop(&fiber->state.variables);
    shim_loops_drop(&fiber->state.loops);
}

static bool holds(const shim_fiber *fiber)
{
    return shim_variables_hold(&fiber->state.variables) || (fiber->state.globals_begun && shim_globals_hold()) ||
           (fiber->state.executor_begun && shim_executor_holds()) || shim_loops_hold(&fiber->state.loops);
}

/* Frees the remains of a request that may have destructors. These run script code, which may leave further remains. */
static void drop(shim_fiber *fiber, const shim_checkpoint *here)
{
    for (int round = 0; holds(fiber) && round < DROPS_MAX; round++) {
        (void)shim_step(here, drop_once, fiber);
    }
}

static void clean_extensions(shim_fiber *fiber)
{
    shim_modules_clean(&fiber->state.modules_begun);
}

static void end_variables(shim_fiber *fiber)
{
    shim_variables_end(&fiber->state.variables);
}

static void end_globals(shim_fiber *fiber)
{
    if (fiber->state.globals_begun) {
        shim_globals_end(is_of_own_loop(fiber) && !fiber->context.bailed_out);
    }
}

/* Called while the request can still park. Its time limit does not cover the wait. */
static void end_tasks(shim_fiber *fiber)
{
    if (fiber->context.tasks.count > 0) {
        zend_unset_timeout();
        SHIM_CALL_REQUEST_HOOKS(finish, &fiber->context);
        zend_set_timeout(EG(timeout_seconds), 1);
    }
}

static void end_instance(shim_fiber *fiber)
{
    shim_own_instance_end(&fiber->context);
}

static void release_proxy(shim_fiber *fiber)
{
    zend_object *proxy = fiber->ending_proxy;
    fiber->ending_proxy = NULL;
    OBJ_RELEASE(proxy);
}

static void release(shim_fiber *fiber, zend_object *proxy, const shim_checkpoint *here)
{
    if (proxy != NULL) {
        fiber->ending_proxy = proxy;
        (void)shim_step(here, release_proxy, fiber);
    }
}

/* Called after the destructors of the request's other objects, which may use the instances, and while the request can
 * still park. Instances that their own destructors create anew are closed in a limited number of rounds. */
static void end_instances(shim_fiber *fiber, const shim_checkpoint *here)
{
    shim_context *context = &fiber->context;
    for (int round = 0; shim_own_instances_are_open(context); round++) {
        if (round == DROPS_MAX) {
            shim_own_instances_close(context);
        }
        (void)shim_step(here, end_instance, fiber);
        release(fiber, shim_own_instance_forget(context), here);
    }
    shim_own_instances_close(context);
}

/* Called when their connections are clean. */
static void hand_instances_on(shim_fiber *fiber, const shim_checkpoint *here)
{
    zend_object *proxy = NULL;
    while ((proxy = shim_own_instance_hand_on(&fiber->context)) != NULL) {
        release(fiber, proxy, here);
    }
    shim_own_instances_free(&fiber->context);
}

void shim_request_finish(shim_fiber *fiber, const shim_checkpoint *here)
{
    complete_response(fiber, here);
    /* The time limit starts anew for destructors: the response may have taken long. */
    zend_set_timeout(EG(timeout_seconds), 1);
    if (fiber->context.bailed_out) {
        /* Its files stay open until the worker boots again; other requests may be waiting for their locks. */
        shim_locks_end(fiber, true);
    }
    (void)shim_step_call(here, shim_superglobals_end);
    drop(fiber, here);
    while (fiber->state.modules_begun > 0) {
        (void)shim_step(here, clean_extensions, fiber);
    }
    drop(fiber, here);
    end_instances(fiber, here);
    drop(fiber, here);
    SHIM_CALL_REQUEST_HOOKS(cancel, &fiber->context);
    end_fibers(fiber, here);
    shim_connections_end(fiber, here);
    hand_instances_on(fiber, here);
    /* The request no longer owns anything that its tasks could wait for. */
    end_tasks(fiber);
    /* Its tasks, connections and instances are gone. */
    fiber->may_wait = false;
    drop(fiber, here);
    /* Closing the body may open it again. */
    for (int round = 0; SG(request_info).request_body != NULL && round < DROPS_MAX; round++) {
        (void)shim_step_call(here, shim_globals_end_body);
    }
    drop(fiber, here);
    /* The fibers that the last destructors have used. */
    end_fibers(fiber, here);
    shim_connections_end(fiber, here);
    (void)shim_step_call(here, php_output_deactivate);
    shim_child_end();
    (void)shim_step(here, end_globals, fiber);
    if (fiber->state.variables.begun) {
        (void)shim_step(here, end_variables, fiber);
    }
    /* No script code runs from here on. */
    zend_unset_timeout();
    shim_loops_reset(&fiber->state.loops);
    shim_executor_end();
    shim_globals_reset();
    shim_executor_reset();
    shim_ini_end();
    shim_modules_reset();
    shim_process_state_end();
    shim_connections_leave(fiber);
    shim_locks_end(fiber, fiber->context.bailed_out);
    shim_own_children_end(&fiber->context);
    shim_memory_limit_apply();
}
