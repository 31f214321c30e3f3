/* A script as a regular PHP request, from startup to shutdown: for a client in classic mode, or to boot a worker.
 *
 * Promises: every bailout of PHP ends here; php_request_shutdown runs whatever happened before it. */
#include "async/task/owned_tasks.h"
#include "compat.h"
#include "php/bailout/after_jump.h"
#include "php/bailout/mutexes.h"
#include "php/bailout/overflow.h"
#include "php/bailout/request_shutdown.h"
#include "php/context/context.h"
#include "php/context/current_span.h"
#include "php/context/host.h"
#include "php/context/own_worker.h"
#include "php/context/request_info.h"
#include "php/engine/deep.h"
#include "php/engine/matching.h"
#include "php/libc/process.h"
#include "php/opcache/cache.h"
#include "php/process/children.h"
#include "php/process/own_children.h"
#include "php/request/missing_script.h"
#include "php/request/request_object.h"
#include "shim.h"
#include "worker/engine/collector.h"
#include "worker/engine/stacks.h"
#include "worker/request/worker.h"

static __thread shim_strings own_strings;

/* Starts the request. If OPcache must restart, it restarts in here. */
static bool start(shim_context *context)
{
    context->starting = true;
    bool started = php_request_startup() == SUCCESS;
    context->starting = false;
    if (context->restarting) {
        context->restarting = false;
        shim_host.restart.done();
    }
    if (started) {
        shim_cache_started(context->is_boot);
    }
    /* PHP would end the script at the first output of a HEAD request; the host discards the body and counts its
     * length. */
    SG(request_info).headers_only = 0;
    return started && (!context->is_boot || shim_matching_begin());
}

static void run_script(const shim_files *files)
{
    zend_file_handle file;
    zend_try {
        zend_stream_init_filename(&file, files->script);
        file.primary_script = 1;
        shim_script = &file;
        /* PHP would change to the script's directory and back; there is no need to change back. */
        SG(options) |= SAPI_OPTION_NO_CHDIR;
        if (files->folder != NULL) {
            VCWD_CHDIR(files->folder);
        } else {
            VCWD_CHDIR_FILE(SG(request_info).path_translated);
        }
        if (!shim_script_is_missing()) {
            php_execute_script(&file);
        }
    } zend_end_try();
    (void)shim_overflow_report();
    /* Drops the spans that a bailout has left open. */
    shim_current_span = 0;
    shim_script = NULL;
    zend_try {
        zend_destroy_file_handle(&file);
    } zend_end_try();
}

/* The purpose of a script's run. */
typedef enum run_kind {
    /* A client, in classic mode. */
    RUN_FOR_CLIENT,
    /* The boot of a worker, whose script serves. */
    RUN_FOR_WORKER,
    /* The boot of a thread for tasks, which serves once the script has ended. */
    RUN_FOR_TASKS,
} run_kind;

/* Whether the boot has succeeded. A script that ends by exit(1) has failed like one that throws: its preparations are
 * incomplete. */
static bool has_booted(const shim_context *context)
{
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

/* Runs the script as a regular PHP request. */
static shim_outcome run(const shim_request *request, void *host, run_kind kind)
{
    const bool is_boot = kind != RUN_FOR_CLIENT;
    shim_context context = {
        .host = host,
        .request = request,
        .number = request->number,
        .time = request->time,
        .body_length = request->content_length,
        .is_boot = is_boot,
    };
    shim_files files = {0};
    shim_current = &context;
    shim_current_span = 0;
    if (is_boot) {
        shim_own_worker.host = host;
        shim_own_worker.boot = &context;
        shim_collector_forget();
    }
    shim_descent_forget();
    shim_stacks_forget();
    shim_process_begin();
    SG(server_context) = &context;
    if (shim_describe(&own_strings, request, &files) && start(&context)) {
        if (request->script.length > 0) {
            run_script(&files);
        }
        if (kind == RUN_FOR_TASKS && has_booted(&context)) {
            shim_worker_serve_tasks();
        }
    } else {
        context.fatal = true;
    }
    if (context.timed_out && context.fatal && !context.finished) {
        /* The client gets the end of the response now, not after the shutdown functions. */
        shim_host.io.time_limit(host);
        context.finished = true;
    }
    if (CG(unclean_shutdown)) {
        shim_mutexes_return_to(0);
        shim_output_mend();
        zend_try {
            shim_after_jump();
        } zend_end_try();
    }
    if (is_boot) {
        shim_worker_forget();
    }
    zend_try {
        shim_object_forget(&context);
    } zend_end_try();
    shim_request_shutdown();
    shim_matching_end();
    (void)shim_overflow_report();
    shim_mutexes_return_to(0);
    shim_child_end();
    shim_owned_tasks_cancel(&context.tasks);
    shim_owned_tasks_end(&context.tasks);
    shim_own_children_end(&context);
    SG(server_context) = NULL;
    SG(request_info) = (sapi_request_info){0};
    if (is_boot) {
        /* A boot script is the thread's only script. */
        free(own_strings.bytes);
        own_strings = (shim_strings){0};
    }
    shim_process_end();
    shim_current = NULL;
    return shim_outcome_of(&context);
}

shim_outcome shim_run(const shim_request *request, void *host)
{
    return run(request, host, RUN_FOR_CLIENT);
}

shim_outcome shim_boot(const shim_request *request, void *host, const shim_worker_info *info)
{
    shim_own_worker.info = *info;
    return run(request, host, RUN_FOR_WORKER);
}

shim_outcome shim_boot_for_tasks(const shim_request *request, void *host, const shim_worker_info *info)
{
    shim_own_worker.info = *info;
    shim_own_worker.is_for_tasks = true;
    return run(request, host, RUN_FOR_TASKS);
}
