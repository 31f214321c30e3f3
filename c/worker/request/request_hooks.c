/* The hooks of worker mode in requests of classic mode and in boot scripts. */
#include "compat.h"
#include "php/context/context.h"
#include "worker/connections/connections.h"
#include "worker/connections/instances/instances.h"
#include "worker/connections/owners/owners.h"
#include "worker/engine/engine.h"
#include "worker/hooks/hooks.h"
#include "worker/request/request.h"
#include "worker/stack/stack.h"

#include <poll.h>

static bool declare(zend_module_entry *module)
{
    shim_worker_declare(module);
    shim_busy_error_register();
    (void)zend_register_functions(NULL, shim_per_request_functions, NULL, MODULE_PERSISTENT);
    return true;
}

static void begin(const shim_context *context)
{
    if (context->is_boot) {
        shim_collector_forget();
    }
    shim_stacks_forget();
}

/* Closes the request's own instances and ends traces of persistent connections, in classic mode; in worker mode, requests
 * do it (ending.c). Destructors have been called. */
static void end_instances(shim_context *context)
{
    if (context->owner != NULL) {
        return;
    }
    zend_try {
        /* Flushes the trace, into a stream of the script. */
        shim_libpq_untrace_persistent();
    } zend_end_try();
    shim_own_instances_close(context);
    while (shim_own_instances_are_open(context)) {
        zend_object *volatile proxy = NULL;
        zend_try {
            shim_own_instance_end(context);
        } zend_end_try();
        proxy = shim_own_instance_forget(context);
        zend_try {
            OBJ_RELEASE(proxy);
        } zend_end_try();
    }
    shim_own_instances_free(context);
}

static bool be_complete(shim_completion *completion, uint32_t waiter)
{
    (void)completion;
    (void)waiter;
    return true;
}

static void cancel_job(void (*job)(void *data, bool runs), void *data)
{
    job(data, false);
}

static void lose_host(shim_callbacks *host)
{
    host->completion.wait = be_complete;
    host->helper.run = cancel_job;
}

const shim_request_hooks shim_worker_request_hooks = {
    .declare = declare,
    .begin = begin,
    .recover = shim_stacks_drop_without_output,
    .end = end_instances,
    .ended = shim_connections_stop,
    .fork = lose_host,
};

/* ---- waits in code of classic mode ---- */

static bool wait_for_client(int64_t *pause)
{
    return shim_running != NULL && shim_fiber_may_park() && shim_park_briefly(pause, SHIM_WAITS_FOR_CLIENT);
}

static bool can_wait_for_process(const void *caller)
{
    return caller != NULL ? shim_hook_is_on_for(SHIM_HOOK_PROCESS, caller) : shim_hook_is_on(SHIM_HOOK_PROCESS);
}

static shim_process_waited wait_for_process(int descriptor)
{
    if (descriptor < 0) {
        shim_hook_blocks(SHIM_HOOK_PROCESS, SHIM_OBSTACLE_MEMORY);
        return SHIM_PROCESS_BLOCK;
    }
    switch (shim_hooked_wait_for(SHIM_HOOK_PROCESS, descriptor, POLLIN, 0)) {
    case SHIM_WAITED_OVER:
        return SHIM_PROCESS_GIVE_UP;
    case SHIM_WAITED_BLOCK:
        return SHIM_PROCESS_BLOCK;
    default:
        return SHIM_PROCESS_CHECK;
    }
}

/* Whether the stream has a descriptor, and reading it has no side effects. */
static bool is_plain(const php_stream *stream)
{
    return php_stream_is(stream, PHP_STREAM_IS_STDIO) || strstr(stream->ops->label, "socket") != NULL;
}

static bool is_in_use(php_stream *stream)
{
    int descriptor = -1;
    if (shim_large_object_is_busy(stream)) {
        return true;
    }
    return is_plain(stream) &&
           php_stream_cast(stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL, (void **)&descriptor, 0) == SUCCESS &&
           descriptor >= 0 && (shim_is_being_locked(descriptor) || shim_watches_use(descriptor));
}

void shim_wait_hooks_install(void)
{
    shim_locks_install();
    shim_wait_hooks.for_client = wait_for_client;
    shim_wait_hooks.can_wait_for_process = can_wait_for_process;
    shim_wait_hooks.for_process = wait_for_process;
    shim_wait_hooks.is_in_use = is_in_use;
}
