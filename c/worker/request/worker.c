/* Worker mode: a script boots once per thread and serves many requests.
 *
 * The script runs as a regular PHP request and calls Svc\Worker::serve(). While it serves, the boot request is
 * suspended, and the host's loop begins requests (run.c), resumes waiting ones, and sleeps. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/request/request.h"
#include "shim.h"
#include "worker/connections/connections.h"
#include "worker/connections/owners/owners.h"
#include "worker/engine/engine.h"
#include "worker/request/request.h"
#include "worker/stack/stack.h"
#include "worker/state/state.h"

/* The state of the boot request while the worker serves. */
static __thread shim_request_state boot_state;

/* Suspends the boot request. Returns false if there is no memory for the boot script's own state. */
static bool suspend_boot(bool is_side_by_side)
{
    /* Open connections would stay open, and locked, until a request arrives. */
    shim_connections_end_own_stack();
    zend_unset_timeout();
    shim_state_capture();
    boot_state.loops.is_own = is_side_by_side;
    if (!shim_state_prepare(&boot_state)) {
        shim_state_release();
        return false;
    }
    shim_state_suspend(&boot_state);
    shim_own_worker.serving = true;
    shim_current = NULL;
    return true;
}

/* Releases the tasks and locks of a request that will not be resumed, because others may wait for them. */
static void lose(shim_fiber *fiber)
{
    SHIM_CALL_REQUEST_HOOKS(lose, &fiber->context);
    shim_locks_end(fiber, true);
}

static void resume_boot(void)
{
    shim_fibers_lose(lose);
    shim_fibers_forget();
    shim_own_worker.serving = false;
    shim_state_resume(&boot_state);
    shim_state_free(&boot_state);
    shim_state_release();
    shim_current = shim_own_worker.boot;
    /* The rest of the script has a time limit, too. */
    zend_set_timeout(EG(timeout_seconds), 1);
}

/* Calls `loop` with `handler` as the handler of requests. */
static void serve_with(const zend_fcall_info *handler, const zend_fcall_info_cache *cache, void (*loop)(void *), bool *more)
{
    shim_worker_handler.call = *handler;
    shim_worker_handler.cache = *cache;
    Z_TRY_ADDREF(shim_worker_handler.call.function_name);
    if (!suspend_boot(loop != NULL)) {
        zval_ptr_dtor(&shim_worker_handler.call.function_name);
        ZVAL_UNDEF(&shim_worker_handler.call.function_name);
        zend_throw_error(NULL, "Out of memory");
        return;
    }
    shim_own_worker.is_looping = loop != NULL;
    if (loop != NULL) {
        loop(shim_own_worker.host);
    } else {
        *more = !shim_own_worker.has_lost_connection && shim_host.worker.serve_one(shim_own_worker.host);
    }
    shim_own_worker.is_ending = loop != NULL || !*more;
    resume_boot();
    zval_ptr_dtor(&shim_worker_handler.call.function_name);
    ZVAL_UNDEF(&shim_worker_handler.call.function_name);
}

static bool may_serve(const char *what)
{
    if (shim_own_worker.host == NULL || shim_own_worker.is_for_tasks || shim_current != shim_own_worker.boot) {
        zend_throw_error(NULL, "%s can only be called from a worker script", what);
        return false;
    }
    if (shim_own_worker.serving || EG(active_fiber) != NULL) {
        zend_throw_error(NULL, "%s cannot be called inside a request or a fiber", what);
        return false;
    }
    if (shim_own_worker.is_ending) {
        /* The worker is ending; a script that keeps asking for requests would block it. */
        zend_throw_unwind_exit();
        return false;
    }
    return true;
}

/* ---- tasks ---- */

static ZEND_NAMED_FUNCTION(serve_tasks)
{
    (void)execute_data;
    (void)return_value;
    if (!suspend_boot(true)) {
        zend_throw_error(NULL, "Out of memory");
        return;
    }
    shim_own_worker.is_looping = true;
    shim_host.worker.serve(shim_own_worker.host);
    shim_own_worker.is_ending = true;
    resume_boot();
}

/* Whether the boot has succeeded. A script that ends by exit(1) has failed like one that throws: its preparations are
 * incomplete. */
static bool has_booted(void)
{
    const shim_context *context = shim_own_worker.boot;
    if (context->fatal || EG(exit_status) == 0) {
        return !context->fatal;
    }
    char text[64];
    const int length = snprintf(text, sizeof(text), "the script has ended itself by exit(%d)", EG(exit_status));
    const shim_log record = {
        .source = SHIM_LOG_ERROR,
        .error_type = E_ERROR,
        .message = shim_view_of(text, (size_t)length),
    };
    shim_host.io.log(context->host, &record);
    return false;
}

/* Serves tasks inside a function call: requests need a frame below them. */
static void call_serve_tasks(void)
{
    zend_internal_function function = {
        .type = ZEND_INTERNAL_FUNCTION,
        .function_name = ZSTR_KNOWN(ZEND_STR_FUNCTION),
        .handler = serve_tasks,
    };
    if (!has_booted()) {
        return;
    }
    zend_try {
        zval nothing;
        ZVAL_UNDEF(&nothing);
        zend_call_known_function((zend_function *)&function, NULL, NULL, &nothing, 0, NULL, NULL);
        if (EG(exception) != NULL) {
            (void)zend_exception_error(EG(exception), E_ERROR);
        }
    } zend_end_try();
}

/* ---- Svc\Worker ---- */

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
    serve_with(&handler, &cache, shim_host.worker.serve, NULL);
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
    shim_first_request_boot_expect();
    serve_with(&handler, &cache, NULL, &more);
    shim_first_request_boot_inherit();
    shim_streams_inherit();
    RETURN_BOOL(more);
}

/* The fiber record for requests on the thread's own stack, one at a time. */
static __thread shim_fiber own_stack;

static uint64_t next_serial(void)
{
    static __thread uint64_t begun;
    return ++begun;
}

static shim_context context_of(const shim_request *request, void *host)
{
    return (shim_context){
        .host = host,
        .owner = host,
        .is_task = shim_own_worker.is_for_tasks,
        .request = request,
        .number = request->number,
        .serial = next_serial(),
        .time = request->time,
        .body_length = request->content_length,
    };
}

shim_progress shim_request_start(const shim_request *request, void *host)
{
    return shim_fiber_start(context_of(request, host), shim_request_run);
}

static void run_here(shim_context context)
{
    own_stack.context = context;
    shim_request_run(&own_stack);
    shim_state_free(&own_stack.state);
}

void shim_request_here(const shim_request *request, void *host)
{
    run_here(context_of(request, host));
}

void shim_worker_collect_garbage(void)
{
    run_here((shim_context){.serial = next_serial(), .is_task = shim_own_worker.is_for_tasks, .finished = true});
}

int64_t shim_worker_idle_wait(void)
{
    return shim_own_worker.tainted ? -1 : shim_collector_idle_wait();
}

void shim_worker_facts_read(shim_worker_facts *facts)
{
    *facts = (shim_worker_facts){
        .heap_bytes = zend_memory_usage(false),
        .tainted = shim_own_worker.tainted || shim_own_worker.has_lost_connection,
        .exit_scheduled = shim_own_worker.exit_scheduled,
        .collection_wanted = !shim_own_worker.tainted && shim_collector_is_due(),
    };
}

void shim_worker_leaves(shim_view reason)
{
    size_t room = sizeof(shim_own_worker.exit_reason) - 1;
    size_t length = reason.length < room ? reason.length : room;
    memcpy(shim_own_worker.exit_reason, reason.bytes, length);
    shim_own_worker.exit_reason[length] = '\0';
}

/* The boot request is about to shut down: clears the state of the worker. */
static void forget(void)
{
    if (shim_own_worker.tainted) {
        /* As after any fatal error, no destructor runs, and nothing is freed individually. */
        zend_objects_store_mark_destructed(&EG(objects_store));
        CG(unclean_shutdown) = 1;
    }
    shim_kept_variables_forget();
    shim_memory_limit_forget();
    shim_loops_release();
    free(own_stack.strings.bytes);
    own_stack.strings = (shim_strings){0};
    shim_own_worker = (shim_worker){0};
    shim_worker_handler = (shim_request_handler){0};
    memset(&boot_state, 0, sizeof(boot_state));
}

/* PHP has started the boot request. */
static bool started(void)
{
    shim_opcache_request_boot();
    return shim_pcre_match_data_begin();
}

static shim_outcome boot(const shim_request *request, void *host, const shim_worker_info *info, void (*serve)(void))
{
    const shim_boot_steps steps = {
        .started = started, .serve = serve, .stop = forget, .stopped = shim_pcre_match_data_end};
    shim_own_worker.info = *info;
    shim_own_worker.is_for_tasks = serve != NULL;
    return shim_script_run(request, host, &steps);
}

shim_outcome shim_boot(const shim_request *request, void *host, const shim_worker_info *info)
{
    return boot(request, host, info, NULL);
}

shim_outcome shim_boot_for_tasks(const shim_request *request, void *host, const shim_worker_info *info)
{
    return boot(request, host, info, call_serve_tasks);
}
