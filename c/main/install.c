/* The order in which the features of this build are installed: each step needs those above it.
 *
 * Only this folder knows which features there are; a build without one leaves out its lines here, and its sources. */
#include "compat.h"
#include "main/main.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/files/files.h"
#include "php/libc/libc.h"
#include "php/opcache/opcache.h"
#include "php/process/process.h"
#include "php/request/request.h"
#include "php/sapi/sapi.h"
#ifdef SVC_WORKER
#include "worker/connections/connections.h"
#include "worker/connections/instances/instances.h"
#include "worker/connections/owners/owners.h"
#include "worker/engine/engine.h"
#include "worker/hooks/hooks.h"
#include "worker/request/request.h"
#include "worker/stack/stack.h"
#include "worker/state/state.h"
#endif
#ifdef SVC_ASYNC
#include "async/task/task.h"
#endif
#ifdef SVC_TRACE
#include "trace/apm/apm.h"
#include "trace/trace.h"
#endif

#define NO_HANDLE "PHP has no free resource handle; load fewer extensions"

/* The options of the running start. */
static const shim_options *start;

typedef struct step {
    /* One of the two: a step that cannot fail, or one that returns false if it has. */
    void (*install)(void);
    bool (*attempt)(void);
    /* The error of the latter. */
    const char *failure;
} step;

static const char *run(const step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (steps[i].install != NULL) {
            steps[i].install();
        } else if (!steps[i].attempt()) {
            return steps[i].failure;
        }
    }
    return NULL;
}

/* ---- before PHP ---- */

static bool has_libc_functions(void)
{
    return shim_libc_hidden() == NULL;
}

static char not_exported[96];

static bool has_libphp_functions(void)
{
    const char *name = shim_libphp_missing();
    if (name != NULL) {
        (void)snprintf(not_exported, sizeof(not_exported), "libphp does not export %s()", name);
    }
    return name == NULL;
}

static const step before_php[] = {
    {.attempt = has_libc_functions,
     .failure = "the executable does not export its replacements of libc functions (c/php/libc/interposed.def)"},
    {.attempt = has_libphp_functions, .failure = not_exported},
    {.attempt = shim_iterative_free_install, .failure = "libphp does not export the functions that free objects and arrays"},
    {.install = shim_syscall_elision_install},
    {.install = shim_own_signals_install},
    {.install = shim_libc_install},
#ifdef SVC_WORKER
    {.install = shim_reactor_install},
#endif
    {.install = shim_umask_install},
    {.install = shim_programs_install},
};

/* Returns the error of an option that needs a feature which this build does not have. */
static const char *missing_feature(const shim_options *options)
{
#ifndef SVC_WORKER
    if (options->boots || options->hooks != 0) {
        return "worker mode, tasks and runtime hooks need a build with the cargo feature `worker`";
    }
#endif
#ifndef SVC_TRACE
    if (options->traces || options->reports_failures || options->observes_clients) {
        return "traces need a build with the cargo feature `trace`";
    }
#endif
    (void)options;
    return NULL;
}

const char *shim_install_before_php(const shim_options *options)
{
    const char *missing = missing_feature(options);
    if (missing != NULL) {
        return missing;
    }
    /* In this order, features end a request. */
#ifdef SVC_ASYNC
    shim_request_hooks_register(&shim_async_request_hooks);
#endif
#ifdef SVC_WORKER
    shim_request_hooks_register(&shim_worker_request_hooks);
#endif
#ifdef SVC_TRACE
    if (options->observes_clients) {
        shim_request_hooks_register(&shim_apm_request_hooks);
    }
    shim_request_hooks_register(&shim_trace_request_hooks);
#endif
    return run(before_php, SHIM_COUNT(before_php));
}

/* ---- after PHP's modules ---- */

#ifdef SVC_WORKER
static void install_hooks(void)
{
    shim_hooks_install(start->hooks);
}

static bool install_connections(void)
{
    const bool have_owners = (start->hooks & 1u << SHIM_HOOK_NET) != 0;
    return (!have_owners && !start->boots) || shim_connections_install(have_owners);
}
#endif

#ifdef SVC_TRACE
static bool install_traces(void)
{
    if (start->traces || start->reports_failures) {
        shim_failures_install(start->reports_failures);
    }
    return !start->traces || shim_span_fibers_follow();
}

static bool install_apm(void)
{
    return !start->observes_clients || shim_apm_install(start, shim_trace_slot());
}
#endif

static const step after_modules[] = {
    {.install = shim_errors_install},
    {.install = shim_server_variables_install},
    {.install = shim_functions_override},
    {.install = shim_paths_install},
    {.install = shim_shared_memory_install},
    {.install = shim_database_locks_install},
#ifdef SVC_WORKER
    {.install = shim_sleeps_install},
    {.install = install_hooks},
#endif
#ifdef SVC_TRACE
    {.attempt = install_traces, .failure = NO_HANDLE},
    /* Before connections, so that the connection of an observed call is known by then. */
    {.attempt = install_apm, .failure = "out of memory"},
#endif
#ifdef SVC_WORKER
    {.attempt = install_connections, .failure = NO_HANDLE},
#endif
    {.install = shim_stream_guard_install},
    {.install = shim_interrupts_install},
    {.install = shim_fiber_class_install},
    {.install = shim_suspended_fibers_install},
    {.install = shim_patterns_install},
    {.install = shim_persistent_pdo_install},
    {.install = shim_fonts_install},
#ifdef SVC_WORKER
    {.install = shim_input_install},
    {.install = shim_loading_install},
    {.install = shim_collector_install},
    {.install = shim_own_instances_install},
    {.install = shim_wait_hooks_install},
#endif
    {.install = shim_overflow_install},
    {.install = shim_lost_pages_install},
    {.install = shim_library_failures_install},
    {.install = shim_queries_install},
#ifdef SVC_WORKER
    {.attempt = shim_stacks_install, .failure = NO_HANDLE},
    {.install = shim_modules_follow_stacks},
    {.install = shim_wsdl_cache_install},
    {.install = shim_marking_install},
    {.install = shim_guards_follow_fibers},
    {.install = shim_left_fibers_install},
#endif
    {.install = shim_opcache_install},
#ifdef SVC_WORKER
    {.install = shim_opcache_requests_install},
    {.install = shim_kept_variables_install},
#endif
};

const char *shim_install(const shim_options *options)
{
    start = options;
    const char *failure = run(after_modules, SHIM_COUNT(after_modules));
    start = NULL;
    return failure;
}

/* ---- the end of a thread ---- */

void shim_features_stop_thread(void)
{
#ifdef SVC_WORKER
    shim_stacks_forget();
    shim_wsdl_cache_stop();
#endif
    shim_overflow_thread_stop();
    shim_patterns_thread_stop();
    shim_free_depth_stop();
#ifdef SVC_TRACE
    shim_span_objects_stop();
#endif
#ifdef SVC_WORKER
    shim_sockets_forget();
    shim_locks_stop();
    shim_reactor_close();
#endif
    shim_execution_timer_stop();
    shim_own_signals_thread_stop();
}
