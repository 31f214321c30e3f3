/* Worker mode: a script boots once a thread and serves many requests.
 *
 * The script runs as a request of PHP's own and calls Svc\Worker::serve(). While it serves, the boot request is
 * suspended, and the host's loop begins requests, resumes those that wait, and sleeps. Each request is built from what
 * php_request_startup and php_request_shutdown do for a request, without what they do for a thread: modules stay
 * started, code stays loaded, memory stays allocated.
 *
 * A jump (fatal error, memory or time limit) ends its request (guard.c). What its frames held is not freed, so the worker
 * is tainted from then on: the host lets the other requests end and boots it anew. */
#include "internal.h"

/* What answers the requests of this thread's worker, and where the boot request is while it serves. */
static __thread struct {
    zend_fcall_info handler;
    zend_fcall_info_cache handler_cache;
    shim_request_state boot_state;
} serving;

/* ---- one request ---- */

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

/* What the boot script owns is the request's too before anything comes from the client that could end in a jump. */
static void begin(shim_fiber *fiber)
{
    shim_globals_begin();
    fiber->state.globals_begun = true;
    shim_executor_begin();
    fiber->state.executor_begun = true;
    shim_modules_begin(&fiber->state.modules_begun);
    SG(server_context) = &fiber->context;
    shim_fiber_identify(fiber);
}

/* The request as it came: its form is parsed here. */
static void take_in(shim_fiber *fiber)
{
    char *script = NULL;
    if (!shim_describe(&fiber->strings, fiber->context.request, &script)) {
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

/* What PHP says of the request's form is for the log. No handler hears of it, as none is there yet before a script. */
static bool take_in_unheard(shim_fiber *fiber, const shim_place *here)
{
    zval handler;
    ZVAL_COPY_VALUE(&handler, &EG(user_error_handler));
    ZVAL_UNDEF(&EG(user_error_handler));
    const bool ended = shim_step(here, take_in, fiber);
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
    zend_fcall_info call = serving.handler;
    call.retval = &result;
    zend_fcall_info_cache *cache = &serving.handler_cache;
    bool is_made_up = cache->function_handler != NULL &&
                      (cache->function_handler->common.fn_flags & ZEND_ACC_CALL_VIA_TRAMPOLINE) != 0;
    (void)zend_call_function(&call, is_made_up ? NULL : cache);
    zval_ptr_dtor(&result);
}

/* Nobody's request: what the worker does on its own account and runs scripts' code. */
static void clean_up(shim_fiber *fiber)
{
    (void)fiber;
    php_output_activate();
    php_output_set_status(PHP_OUTPUT_DISABLED);
    shim_collector_run();
}

static bool serve_client(shim_fiber *fiber, const shim_place *here)
{
    return take_in_unheard(fiber, here) && shim_step(here, start_extensions, fiber) &&
           shim_step(here, call_handler, fiber);
}

static void run_request(shim_fiber *fiber)
{
    shim_context *before = shim_current;
    shim_current = &fiber->context;
    fiber->phase = SHIM_PHASE_RUNNING;
    fiber->state.globals_begun = false;
    fiber->state.executor_begun = false;
    fiber->state.modules_begun = 0;
    fiber->state.modules_started = 0;
    shim_loading_begin();
    shim_own_worker.carried++;
    shim_place here = shim_place_here();
    zend_set_timeout(EG(timeout_seconds), 1);
    bool ended = shim_step(&here, begin, fiber);
    here.fiber = fiber->php;
    if (ended && fiber->context.request != NULL) {
        shim_own_worker.requests++;
        shim_cache_begin(fiber->context.time);
        ended = serve_client(fiber, &here);
    } else if (ended) {
        ended = shim_step(&here, clean_up, fiber);
    }
    fiber->context.fatal = fiber->context.fatal || !ended;
    fiber->context.request = NULL;
    shim_request_finish(fiber, &here);
    shim_own_worker.carried--;
    fiber->phase = SHIM_PHASE_IDLE;
    shim_current = before;
    shim_fiber_let_go(fiber);
}

/* ---- the worker ---- */

/* False: there is no memory for the boot script's own state. */
static bool enter(void)
{
    zend_unset_timeout();
    shim_state_capture();
    if (!shim_state_prepare(&serving.boot_state)) {
        shim_state_release();
        return false;
    }
    shim_state_suspend(&serving.boot_state);
    shim_own_worker.serving = true;
    shim_current = NULL;
    return true;
}

static void leave(void)
{
    shim_own_worker.serving = false;
    shim_state_resume(&serving.boot_state);
    shim_state_free(&serving.boot_state);
    shim_state_release();
    shim_current = shim_own_worker.boot;
}

/* Calls `loop` with `handler` as what answers requests. */
static void serve_with(const zend_fcall_info *handler, const zend_fcall_info_cache *cache, void (*loop)(void *), bool *more)
{
    serving.handler = *handler;
    serving.handler_cache = *cache;
    Z_TRY_ADDREF(serving.handler.function_name);
    if (!enter()) {
        zval_ptr_dtor(&serving.handler.function_name);
        ZVAL_UNDEF(&serving.handler.function_name);
        zend_throw_error(NULL, "There is no memory to serve requests with");
        return;
    }
    if (loop != NULL) {
        loop(shim_own_worker.host);
    } else {
        *more = shim_host.serve_one(shim_own_worker.host);
    }
    shim_own_worker.over = loop != NULL || !*more;
    shim_fibers_forget();
    leave();
    zval_ptr_dtor(&serving.handler.function_name);
    ZVAL_UNDEF(&serving.handler.function_name);
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

/* For requests on the thread's own stack, one at a time. */
static __thread shim_fiber own_stack;

static shim_context context_of(const shim_request *request, void *host)
{
    return (shim_context){
        .host = host,
        .owner = host,
        .request = request,
        .number = request->number,
        .time = request->time,
        .body_length = request->content_length,
    };
}

shim_progress shim_request_start(const shim_request *request, void *host)
{
    return shim_fiber_start(context_of(request, host), run_request);
}

static void run_here(shim_context context)
{
    own_stack.context = context;
    run_request(&own_stack);
    shim_state_free(&own_stack.state);
}

void shim_request_here(const shim_request *request, void *host)
{
    run_here(context_of(request, host));
}

void shim_worker_tidy(void)
{
    run_here((shim_context){.finished = true});
}

void shim_worker_facts_read(shim_worker_facts *facts)
{
    *facts = (shim_worker_facts){
        .heap_bytes = zend_memory_usage(false),
        .tainted = shim_own_worker.tainted,
        .exit_scheduled = shim_own_worker.exit_scheduled,
        .tidy_wanted = !shim_own_worker.tainted && shim_collector_is_due(),
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
    shim_memory_limit_forget();
    free(own_stack.strings.bytes);
    own_stack.strings = (shim_strings){0};
    shim_own_worker = (shim_worker){0};
    memset(&serving, 0, sizeof(serving));
}
