/* A script as a regular PHP request, from startup to shutdown: for a client in classic mode, or to boot a worker.
 *
 * Every bailout of PHP ends here; php_request_shutdown runs whatever happened before it. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"
#include "php/opcache/opcache.h"
#include "php/process/process.h"
#include "php/request/request.h"
#include "shim.h"

#include <errno.h>
#include <unistd.h>

/* ---- a missing file ---- */

/* Scripts whose file is missing when PHP opens it: the host resolves the path again and runs the script that it finds.
 *
 * The host resolves a script shortly before it runs, or remembers the result from an earlier request. If a deployment removes
 * the file in between, PHP would report a fatal error. Instead, PHP reports nothing, no code runs, and the outcome is
 * SHIM_NO_SCRIPT. OPcache runs the cached code of a removed file until it checks the file again. */

__thread zend_file_handle *shim_script;

static zend_result (*open_script)(zend_file_handle *);

static bool file_exists(const char *path)
{
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* PHP runs auto_prepend_file before it opens the script. */
static bool has_file_in_front(void)
{
    return PG(auto_prepend_file) != NULL && PG(auto_prepend_file)[0] != '\0';
}

/* If PHP would run auto_prepend_file before it opens the script, checks the script first. Returns true if its file is
 * missing, and records that in the context. */
static bool script_is_missing(void)
{
    shim_context *context = shim_current;
    if (context->is_boot || !has_file_in_front() || file_exists(ZSTR_VAL(shim_script->filename))) {
        return false;
    }
    context->lacks_script = true;
    return true;
}

static zend_result open_script_or_note(zend_file_handle *file)
{
    shim_context *context = shim_current;
    if (file != shim_script || context == NULL || context->is_boot || has_file_in_front()) {
        return open_script(file);
    }
    const int error_reporting = EG(error_reporting);
    EG(error_reporting) = SHIM_REPORTS_NOTHING;
    zend_result result = open_script(file);
    EG(error_reporting) = error_reporting;
    if (result == SUCCESS) {
        return SUCCESS;
    }
    if (file_exists(ZSTR_VAL(file->filename))) {
        /* The file exists: report the error that prevents PHP from opening it. */
        return open_script(file);
    }
    context->lacks_script = true;
    return FAILURE;
}

/* Takes precedence over the definition in libphp. */
ZEND_API ZEND_COLD void zend_message_dispatcher(zend_long message, const void *data)
{
    const bool is_noted = message == ZMSG_FAILED_REQUIRE_FOPEN && shim_current != NULL && shim_current->lacks_script;
    if (!is_noted) {
        NEXT(zend_message_dispatcher)(message, data);
    }
}

void shim_missing_script_install(void)
{
    open_script = zend_stream_open_function;
    zend_stream_open_function = open_script_or_note;
}

/* ---- PHP's end of a request, and bailouts out of it ---- */

/* php_request_shutdown() catches bailouts where script code runs, but not where objects are freed. If an extension runs
 * out of memory there (mysqlnd reads the rest of an unbuffered result), all later steps are skipped. The thread would
 * keep the script's functions and classes, and no script could declare them again. A php-fpm process ends in that case.
 *
 * The remaining steps run nevertheless, so that the thread can be freed. Because the state after the bailout
 * is unknown, that of persistent connections included, the thread is spent, and the host replaces it. */

static __thread bool is_shutting_down;
static __thread bool is_spent;

bool shim_thread_is_tainted(void)
{
    return is_spent;
}

/* Frees the contents of all objects. An object that a bailout has interrupted is not tried again: it is marked before
 * it is freed. */
void ZEND_FASTCALL zend_objects_store_free_object_storage(zend_objects_store *objects, bool fast_shutdown)
{
    volatile bool ended = false;
    if (!is_shutting_down || objects->top <= 1) {
        NEXT(zend_objects_store_free_object_storage)(objects, fast_shutdown);
        return;
    }
    shim_suspended_fibers_bail_out(objects);
    while (!ended) {
        zend_try {
            NEXT(zend_objects_store_free_object_storage)(objects, fast_shutdown);
            ended = true;
        } zend_catch {
            is_spent = true;
        } zend_end_try();
    }
}

/* ---- the last code of a script ---- */

/* PHP runs some code of a script after the extensions have ended the request: the callback of header_register_callback() if
 * nothing was output, the write handler of a session, and what closes the streams that are left (stream_close() of a wrapper,
 * onClose() of a filter). Such code would use what the extensions have freed, or leave the next request what they do not
 * reset again. Therefore, it runs before, and its output is discarded, as it is by PHP. */

static void send_head_by_callback(void)
{
    if (!SG(headers_sent) && Z_TYPE(SG(callback_func)) != IS_UNDEF) {
        zend_try {
            (void)sapi_send_headers();
        } zend_end_try();
    }
}

static bool has_script_filter(const php_stream_filter_chain *chain)
{
    for (const php_stream_filter *filter = chain->head; filter != NULL; filter = filter->next) {
        if (strcmp(filter->fops->label, "user-filter") == 0) {
            return true;
        }
    }
    return false;
}

/* Returns the stream that the entry of the list of resources is; NULL if it is none, or closed. */
static php_stream *stream_of(const zval *entry)
{
    const zend_resource *resource = Z_TYPE_P(entry) != IS_UNDEF ? Z_PTR_P(entry) : NULL;
    return resource != NULL && resource->type == php_file_le_stream() ? resource->ptr : NULL;
}

static bool has_script_streams(void)
{
    for (uint32_t i = 0; i < EG(regular_list).nNumUsed; i++) {
        php_stream *stream = stream_of(ZEND_HASH_ELEMENT(&EG(regular_list), i));
        if (stream != NULL && (php_stream_is(stream, PHP_STREAM_IS_USERSPACE) ||
                               php_stream_is(stream, PHP_STREAM_IS_USERSPACE_DIR) ||
                               has_script_filter(&stream->readfilters) || has_script_filter(&stream->writefilters))) {
            return true;
        }
    }
    return false;
}

/* Closes all streams in the order of zend_close_rsrc_list(), because one may be inside of another. Begins again when a
 * resource was added: it may be a stream, and the others may have moved to the places of those that were freed. */
static void close_streams(void)
{
    const HashTable *list = &EG(regular_list);
    zend_long next = list->nNextFreeElement;
    for (uint32_t i = list->nNumUsed; i-- > 0;) {
        const php_stream *stream = i < list->nNumUsed ? stream_of(ZEND_HASH_ELEMENT(list, i)) : NULL;
        if (stream != NULL) {
            zend_list_close(stream->res);
        }
        if (list->nNextFreeElement != next) {
            next = list->nNextFreeElement;
            i = list->nNumUsed;
        }
    }
}

static __attribute__((noinline)) uint32_t count_streams(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < EG(regular_list).nNumUsed; i++) {
        count += stream_of(ZEND_HASH_ELEMENT(&EG(regular_list), i)) != NULL ? 1 : 0;
    }
    return count;
}

/* Each bailout costs one stream. After more of them, code that closes a stream has opened another one, and is not called
 * again. */
static void end_streams(void)
{
    if (!has_script_streams()) {
        return;
    }
    const uint32_t streams = count_streams();
    /* Extensions that hold a stream do not close it again. */
    EG(flags) |= EG_FLAGS_IN_RESOURCE_SHUTDOWN;
    php_output_set_status(PHP_OUTPUT_DISABLED);
    volatile bool ended = false;
    for (volatile uint32_t bailouts = 0; !ended; bailouts++) {
        if (bailouts > streams) {
            /* From here on, PHP calls no function of the script. */
            EG(active) = 0;
            is_spent = true;
        }
        zend_try {
            close_streams();
            ended = true;
        } zend_end_try();
    }
}

/* Called after the last code of a script, which may be the first to call Svc\Request::current(). */
static void forget_object(void)
{
    if (Z_TYPE(shim_current->object) != IS_UNDEF) {
        zend_try {
            shim_request_object_detach(shim_current);
        } zend_end_try();
    }
}

ZEND_API void zend_deactivate_modules(void)
{
    if (is_shutting_down) {
        send_head_by_callback();
        /* SoapClient turns a fatal error into a SoapFault, and ends its bailout. */
        if (CG(unclean_shutdown) || shim_current->fatal) {
            shim_bailout_recover();
        }
        shim_session_write();
        end_streams();
        forget_object();
        shim_putenv_drop_unfinished();
        /* PHP clears them before this code. */
        zend_llist_clean(&PG(tick_functions));
    }
    NEXT(zend_deactivate_modules)();
}

/* Drops the entries that the end of the thread would otherwise free one by one, after the memory of the request. */
static void discard(void)
{
    zend_hash_discard(EG(function_table), EG(persistent_functions_count));
    zend_hash_discard(EG(class_table), EG(persistent_classes_count));
    zend_hash_discard(EG(zend_constants), EG(persistent_constants_count));
    zend_try {
        zend_ini_deactivate();
    } zend_end_try();
}

/* Calls php_request_shutdown() with a time limit that covers the last code of the script. */
static void shut_down(void)
{
    volatile bool ended = false;
    is_shutting_down = true;
    shim_current->is_in_last_code = true;
    shim_execution_timer_hold();
    zend_try {
        php_request_shutdown(NULL);
        ended = true;
    } zend_end_try();
    shim_execution_timer_release();
    is_shutting_down = false;
    if (!ended) {
        is_spent = true;
        discard();
    }
}

/* ---- the request ---- */

static __thread shim_strings own_strings;

/* Starts the request. If OPcache must restart, it restarts in here. */
static bool start(shim_context *context, const shim_boot_steps *boot)
{
    context->starting = true;
    bool started = php_request_startup() == SUCCESS;
    context->starting = false;
    if (context->restarting) {
        context->restarting = false;
        shim_host.restart.done();
    }
    if (started) {
        shim_opcache_request_started();
    }
    /* PHP would end the script at the first output of a HEAD request; the host discards the body and counts its
     * length. */
    SG(request_info).headers_only = 0;
    return started && (boot == NULL || boot->started());
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
        if (!script_is_missing()) {
            php_execute_script(&file);
        }
    } zend_end_try();
    shim_overflow_report();
    /* Drops the spans that a bailout has left open. */
    shim_current_span = 0;
    shim_script = NULL;
    zend_try {
        zend_destroy_file_handle(&file);
    } zend_end_try();
}

shim_outcome shim_script_run(const shim_request *request, void *host, const shim_boot_steps *boot)
{
    shim_context context = {
        .host = host,
        .request = request,
        .number = request->number,
        .time = request->time,
        .body_length = request->content_length,
        .is_boot = boot != NULL,
    };
    shim_files files = {0};
    shim_current = &context;
    shim_current_span = 0;
    if (boot != NULL) {
        shim_own_worker.host = host;
        shim_own_worker.boot = &context;
    }
    shim_free_depth_forget();
    SHIM_CALL_REQUEST_HOOKS(begin, &context);
    shim_environment_clear();
    SG(server_context) = &context;
    if (shim_request_info_fill(&own_strings, request, &files) && start(&context, boot)) {
        if (request->script.length > 0) {
            run_script(&files);
        }
        if (boot != NULL && boot->serve != NULL) {
            boot->serve();
        }
    } else {
        context.fatal = true;
    }
    shim_answer_time_limit(&context);
    if (CG(unclean_shutdown)) {
        shim_mutexes_return_to(0);
        shim_output_recover();
        SHIM_CALL_REQUEST_HOOKS(recover);
        zend_try {
            shim_bailout_recover();
        } zend_end_try();
    }
    if (boot != NULL) {
        boot->stop();
    }
    shut_down();
    shim_queries_end();
    if (boot != NULL) {
        boot->stopped();
    }
    shim_overflow_report();
    shim_mutexes_return_to(0);
    shim_child_end();
    SHIM_CALL_REQUEST_HOOKS(cancel, &context);
    SHIM_CALL_REQUEST_HOOKS(finish, &context);
    shim_own_children_end(&context);
    SG(server_context) = NULL;
    SG(request_info) = (sapi_request_info){0};
    if (boot != NULL) {
        /* A boot script is the thread's only script. */
        free(own_strings.bytes);
        own_strings = (shim_strings){0};
    }
    shim_process_state_end();
    shim_current = NULL;
    return shim_outcome_of(&context);
}

shim_outcome shim_run(const shim_request *request, void *host)
{
    return shim_script_run(request, host, NULL);
}
