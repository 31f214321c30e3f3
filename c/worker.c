/* Worker mode: a script boots once a thread and serves many requests.
 *
 * The script runs as a request of PHP's own and calls Svc\Worker::serve(). While it serves, the boot request is
 * suspended, and the host's loop begins requests, resumes those that wait, and sleeps. Each request is built from what
 * php_request_startup and php_request_shutdown do for a request, without what they do for a thread: modules stay
 * started, code stays loaded, memory stays allocated.
 *
 * A jump (fatal error, memory or time limit) ends its request here. What its frames held is not freed, so the worker
 * is tainted from then on: the host lets the other requests end and boots it anew. */
#include "internal.h"

__thread shim_worker shim_own_worker;

/* ---- ends by exception and by jump ---- */

/* As zend_user_exception_handler(), which forgets what the handler throws unless it is called from the bottom of the
 * stack. A handler that does not return is not called again. */
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

static bool is_exit(const zend_object *exception)
{
    return zend_is_unwind_exit(exception) || zend_is_graceful_exit(exception);
}

/* An exception that nobody caught: the script's handler gets it, or the log. exit() is none. */
static void report_exception(void)
{
    if (EG(exception) != NULL && !is_exit(EG(exception)) && Z_TYPE(EG(user_exception_handler)) != IS_UNDEF) {
        call_exception_handler();
    }
    if (EG(exception) == NULL) {
        return;
    }
    if (is_exit(EG(exception))) {
        zend_clear_exception();
    } else {
        (void)zend_exception_error(EG(exception), E_ERROR);
    }
}

/* Where the engine was before it called a request's code. */
typedef struct place {
    zend_execute_data *frame;
    zend_vm_stack stack;
    zval *top;
    zval *end;
    shim_scope *scope;
    bool is_blocked;
} place;

static place place_here(void)
{
    return (place){
        .frame = EG(current_execute_data),
        .stack = EG(vm_stack),
        .top = EG(vm_stack_top),
        .end = EG(vm_stack_end),
        .scope = EG(fake_scope),
        .is_blocked = zend_fiber_switch_blocked(),
    };
}

/* After a jump: the engine is where it was. */
static void return_to(const place *place)
{
    shim_own_worker.tainted = true;
    if (ZEND_OBSERVER_ENABLED) {
        zend_observer_fcall_end_all();
    }
    while (EG(vm_stack) != place->stack && EG(vm_stack) != NULL) {
        zend_vm_stack page = EG(vm_stack);
        EG(vm_stack) = page->prev;
        efree(page);
    }
    EG(vm_stack_top) = place->top;
    EG(vm_stack_end) = place->end;
    EG(current_execute_data) = place->frame;
    EG(fake_scope) = place->scope;
    EG(error_handling) = EH_NORMAL;
    EG(exception_class) = NULL;
    EG(record_errors) = false;
    CG(unclean_shutdown) = 0;
    shim_loading_forget();
    while (!place->is_blocked && zend_fiber_switch_blocked()) {
        zend_fiber_switch_unblock();
    }
    if (EG(exception) != NULL) {
        zend_clear_exception();
    }
    /* Neighbours, and what ends this request, may need memory beyond what the jump left allocated. */
    size_t used = zend_memory_usage(true);
    if (PG(memory_limit) > 0 && used > (size_t)PG(memory_limit) / 2) {
        zend_set_memory_limit(used + (size_t)PG(memory_limit));
    }
}

/* Runs a step that may call a script's code. False: it ended by a jump. */
#define STEP(here, code) \
    ({ \
        volatile bool step_ended = false; \
        zend_try { \
            code; \
            report_exception(); \
            step_ended = true; \
        } zend_catch { \
            return_to(here); \
        } zend_end_try(); \
        step_ended; \
    })

/* ---- one request ---- */

/* Whoever has not had enough then has it freed at the end of the worker. */
enum { DROPS_MAX = 16 };

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

/* Without the layer of output PHP would write what late destructors print to the server's own standard error. */
static void end_output(void)
{
    php_output_deactivate();
    php_output_activate();
    php_output_set_status(PHP_OUTPUT_DISABLED);
}

/* From the neutral state to the request's own; what a request is given is complete when this returns. */
static void begin(shim_fiber *fiber)
{
    const shim_request *request = fiber->context.request;
    char *script = NULL;
    shim_globals_begin();
    shim_executor_begin();
    SG(server_context) = &fiber->context;
    if (!shim_describe(&fiber->strings, request, &script)) {
        zend_error_noreturn(E_ERROR, "Out of memory");
    }
    /* What PHP says of the request's form is for the log. No handler hears of it, as none is there yet before a script. */
    zval error_handler;
    ZVAL_COPY_VALUE(&error_handler, &EG(user_error_handler));
    ZVAL_UNDEF(&EG(user_error_handler));
    php_output_activate();
    sapi_activate();
    SG(request_info).headers_only = 0;
    if (SG(request_info).request_body != NULL) {
        fiber->context.body = SG(request_info).request_body->res;
    }
    zend_set_timeout(EG(timeout_seconds), 1);
    if (PG(expose_php)) {
        sapi_add_header(SAPI_PHP_VERSION_HEADER, sizeof(SAPI_PHP_VERSION_HEADER) - 1, 1);
    }
    start_output();
    shim_superglobals_begin();
    ZVAL_COPY_VALUE(&EG(user_error_handler), &error_handler);
    shim_modules_begin();
}

static void call_handler(void)
{
    zval result;
    ZVAL_UNDEF(&result);
    zend_fcall_info call = shim_own_worker.handler;
    call.retval = &result;
    zend_fcall_info_cache *cache = &shim_own_worker.handler_cache;
    bool is_made_up = cache->function_handler != NULL &&
                      (cache->function_handler->common.fn_flags & ZEND_ACC_CALL_VIA_TRAMPOLINE) != 0;
    (void)zend_call_function(&call, is_made_up ? NULL : cache);
    zval_ptr_dtor(&result);
}

/* Each of them, whatever became of those before it; exit() ends them all. */
static void call_shutdown_functions(const place *here)
{
    /* A shutdown function may register another one, which is called too. Volatile, because a jump may land in the step. */
    for (volatile uint32_t i = 0; BG(user_shutdown_function_names) != NULL && i < BG(user_shutdown_function_names)->nNumUsed; i++) {
        zval *entry = &BG(user_shutdown_function_names)->arPacked[i];
        if ((HT_FLAGS(BG(user_shutdown_function_names)) & HASH_FLAG_PACKED) == 0) {
            entry = &BG(user_shutdown_function_names)->arData[i].val;
        }
        if (Z_TYPE_P(entry) == IS_UNDEF) {
            continue;
        }
        php_shutdown_function_entry *function = Z_PTR_P(entry);
        volatile bool goes_on = true;
        bool ended = STEP(here, {
            zval result;
            ZVAL_UNDEF(&result);
            SHIM_CALL_SHUTDOWN_FUNCTION(function, &result);
            zval_ptr_dtor(&result);
            goes_on = EG(exception) == NULL || !zend_is_unwind_exit(EG(exception));
        });
        if (!ended || !goes_on) {
            return;
        }
    }
}

static shim_outcome outcome_of(const shim_context *context)
{
    if (context->fatal) {
        return context->timed_out ? SHIM_TIME_LIMIT : SHIM_FATAL;
    }
    return context->refused ? SHIM_ABORTED : SHIM_COMPLETE;
}

/* Frees what a request leaves that destructors may hang on. They run a script's code, which may leave more. */
static void drop(const place *here)
{
    volatile bool goes_on = true;
    for (int round = 0; goes_on && round < DROPS_MAX; round++) {
        goes_on = false;
        bool ended = STEP(here, {
            goes_on = shim_globals_drop();
            goes_on = shim_executor_drop() || goes_on;
            if (goes_on) {
                shim_superglobals_end();
            }
        });
        goes_on = goes_on || !ended;
    }
}

/* The steps of php_request_shutdown that are a request's. The client has its answer
 * once its output has ended. */
static void finish(shim_fiber *fiber, const place *here)
{
    shim_context *context = &fiber->context;
    if (context->timed_out && context->fatal && !context->finished) {
        shim_host.time_limit(context->host);
        context->finished = true;
    }
    zend_llist_clean(&PG(tick_functions));
    call_shutdown_functions(here);
    (void)STEP(here, shim_late_boot_take());
    (void)STEP(here, php_output_end_all());
    zend_unset_timeout();
    (void)STEP(here, shim_modules_end());
    (void)STEP(here, end_output());
    shim_object_forget(context);
    shim_host.ended(context->host, outcome_of(context));
    context->host = NULL;
    context->finished = true;
    (void)STEP(here, shim_superglobals_end());
    drop(here);
    (void)STEP(here, shim_modules_clean());
    drop(here);
    (void)STEP(here, php_output_deactivate());
    (void)STEP(here, shim_executor_end());
    (void)STEP(here, shim_globals_end());
    shim_ini_end();
    shim_modules_neutral();
    shim_process_end();
}

void shim_request_run(shim_fiber *fiber)
{
    const place here = place_here();
    shim_context *before = shim_current;
    shim_current = &fiber->context;
    fiber->phase = SHIM_PHASE_RUNNING;
    shim_loading_begin();
    shim_own_worker.requests++;
    volatile bool began = false;
    (void)STEP(&here, {
        begin(fiber);
        began = true;
    });
    fiber->context.request = NULL;
    if (began && EG(exception) == NULL) {
        (void)STEP(&here, call_handler());
    } else {
        fiber->context.fatal = true;
    }
    finish(fiber, &here);
    fiber->phase = SHIM_PHASE_IDLE;
    shim_current = before;
}

/* ---- the worker ---- */

static void enter(void)
{
    zend_unset_timeout();
    shim_state_capture();
    shim_state_suspend(&shim_own_worker.boot_state);
    shim_own_worker.serving = true;
    shim_current = NULL;
}

static void leave(void)
{
    shim_own_worker.serving = false;
    shim_state_resume(&shim_own_worker.boot_state);
    shim_state_free(&shim_own_worker.boot_state);
    shim_state_release();
    shim_current = shim_own_worker.boot;
}

/* Calls `loop` with `handler` as what answers requests. */
static void serve_with(const zend_fcall_info *handler, const zend_fcall_info_cache *cache, void (*loop)(void *), bool *more)
{
    shim_own_worker.handler = *handler;
    shim_own_worker.handler_cache = *cache;
    Z_TRY_ADDREF(shim_own_worker.handler.function_name);
    enter();
    if (loop != NULL) {
        loop(shim_own_worker.host);
    } else {
        *more = shim_host.serve_one(shim_own_worker.host);
    }
    shim_own_worker.over = loop != NULL || !*more;
    shim_fibers_forget();
    leave();
    zval_ptr_dtor(&shim_own_worker.handler.function_name);
    ZVAL_UNDEF(&shim_own_worker.handler.function_name);
}

static bool may_serve(const char *what)
{
    if (shim_own_worker.host == NULL || shim_current != shim_own_worker.boot) {
        zend_throw_error(NULL, "%s may only be called by the script of a worker", what);
        return false;
    }
    if (shim_own_worker.serving || EG(active_fiber) != NULL) {
        zend_throw_error(NULL, "%s may not be called inside of a request or a fiber", what);
        return false;
    }
    if (shim_own_worker.over) {
        /* It was told; a loop that asks for ever would hold its worker up. */
        zend_throw_unwind_exit();
        return false;
    }
    return true;
}

ZEND_METHOD(Svc_Worker, serve)
{
    zend_fcall_info handler;
    zend_fcall_info_cache cache;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_FUNC(handler, cache)
    ZEND_PARSE_PARAMETERS_END();
    if (!may_serve("Svc\\Worker::serve()")) {
        RETURN_THROWS();
    }
    serve_with(&handler, &cache, shim_host.serve, NULL);
}

/* frankenphp_handle_request(callable $callback): bool */
PHP_FUNCTION(frankenphp_handle_request)
{
    zend_fcall_info handler;
    zend_fcall_info_cache cache;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_FUNC(handler, cache)
    ZEND_PARSE_PARAMETERS_END();
    if (!may_serve("frankenphp_handle_request()")) {
        RETURN_THROWS();
    }
    bool more = false;
    shim_late_boot_expect();
    serve_with(&handler, &cache, NULL, &more);
    shim_late_boot_give();
    RETURN_BOOL(more);
}

/* The carrier of a request on the thread's own stack. */
static __thread shim_fiber own_stack;

void shim_request_here(const shim_request *request, void *host)
{
    own_stack.context = (shim_context){.host = host, .request = request, .time = request->time, .body_length = request->content_length};
    shim_request_run(&own_stack);
    shim_state_free(&own_stack.state);
}

void shim_worker_facts_read(shim_worker_facts *facts)
{
    *facts = (shim_worker_facts){
        .heap_bytes = zend_memory_usage(false),
        .tainted = shim_own_worker.tainted,
        .exit_scheduled = shim_own_worker.exit_scheduled,
    };
}

void shim_worker_leaves(shim_view reason)
{
    size_t room = sizeof(shim_own_worker.exit_reason) - 1;
    size_t length = reason.length < room ? reason.length : room;
    memcpy(shim_own_worker.exit_reason, reason.bytes, length);
    shim_own_worker.exit_reason[length] = '\0';
}

/* The boot request is about to be shut down. */
void shim_worker_forget(void)
{
    if (shim_own_worker.tainted) {
        /* As after any fatal error: no destructor runs, and nothing is freed one by one. */
        zend_objects_store_mark_destructed(&EG(objects_store));
        CG(unclean_shutdown) = 1;
    }
    shim_server_variables_forget();
    free(own_stack.strings.bytes);
    own_stack.strings = (shim_strings){0};
    shim_own_worker = (shim_worker){0};
}
