/* The structs of the engine's layers that belong to a request almost entirely, and travel as a whole.
 *
 * SAPI (headers, status, request), output (buffers), core (connection, last error, sources of the superglobals) and the
 * standard functions (shutdown functions, strtok, stat cache, ...). They also contain values of directives, which are
 * reset to the baseline before a directive's handler writes there (state.c). The working directory and the state of
 * streams (worker/state/streams.c) travel with them.
 *
 * Memory that the baseline snapshot points to belongs to the boot script: a request may only read it. Values that PHP
 * changes or frees in place are left out of the snapshot, or copied for each request when it begins. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/files/files.h"
#include "worker/engine/engine.h"
#include "worker/state/state.h"

#include <php_syslog.h>
#include <zend_smart_str.h>

static __thread shim_globals_state baseline;
static __thread char baseline_directory[MAXPATHLEN];

#define SAPI_STRUCT TSRMG_BULK(sapi_globals_id, sapi_globals_struct *)
#define OUTPUT_STRUCT TSRMG_BULK(output_globals_id, zend_output_globals *)
#define CORE_STRUCT TSRMG_BULK(core_globals_id, php_core_globals *)
#define BASIC_STRUCT TSRMG_BULK(basic_globals_id, php_basic_globals *)

static void read_structs(shim_globals_state *state)
{
    state->sapi = *SAPI_STRUCT;
    state->output = *OUTPUT_STRUCT;
    state->core = *CORE_STRUCT;
    state->basic = *BASIC_STRUCT;
}

/* Writes everything except the tables of tags and hosts whose URLs are rewritten, which belong to the directives. */
static void write_basic(const php_basic_globals *basic)
{
    php_basic_globals *own = BASIC_STRUCT;
    HashTable *session_tags = own->url_adapt_session_ex.tags;
    HashTable *output_tags = own->url_adapt_output_ex.tags;
    HashTable session_hosts = own->url_adapt_session_hosts_ht;
    HashTable output_hosts = own->url_adapt_output_hosts_ht;
    *own = *basic;
    own->url_adapt_session_ex.tags = session_tags;
    own->url_adapt_output_ex.tags = output_tags;
    own->url_adapt_session_hosts_ht = session_hosts;
    own->url_adapt_output_hosts_ht = output_hosts;
}

static void write_structs(const shim_globals_state *state)
{
    *SAPI_STRUCT = state->sapi;
    *OUTPUT_STRUCT = state->output;
    *CORE_STRUCT = state->core;
    write_basic(&state->basic);
}

static void make_sapi_baseline(sapi_globals_struct *sapi)
{
    sapi->server_context = NULL;
    sapi->request_info = (sapi_request_info){0};
    sapi->sapi_headers = (sapi_headers_struct){0};
    /* Destructors that run between requests may call header(). */
    zend_llist_init(&sapi->sapi_headers.headers, sizeof(sapi_header_struct), (llist_dtor_func_t)sapi_free_header, 0);
    sapi->read_post_bytes = 0;
    sapi->post_read = 0;
    sapi->headers_sent = 0;
    sapi->rfc1867_uploaded_files = NULL;
    sapi->global_request_time = 0;
    ZVAL_UNDEF(&sapi->callback_func);
    memset(&sapi->fci_cache, 0, sizeof(sapi->fci_cache));
}

static void make_core_baseline(php_core_globals *core)
{
    core->connection_status = PHP_CONNECTION_NORMAL;
    core->header_is_being_sent = 0;
    core->in_error_log = 0;
    core->during_request_startup = 0;
    core->last_error_type = 0;
    core->last_error_lineno = 0;
    core->last_error_message = NULL;
    core->last_error_file = NULL;
    core->open_basedir_modified = false;
    core->php_sys_temp_dir = NULL;
    core->tick_functions.head = NULL;
    core->tick_functions.tail = NULL;
    core->tick_functions.count = 0;
    core->tick_functions.traverse_ptr = NULL;
    /* Functions of PHP expect arrays (getopt(), ob_gzhandler()), and destructors call them between requests. */
    for (int i = 0; i < NUM_TRACK_VARS; i++) {
        ZVAL_EMPTY_ARRAY(&core->http_globals[i]);
    }
}

/* Clears everything except the table of tags, which belongs to a directive. */
static void make_rewriting_baseline(url_adapt_state_ex_t *rewriting)
{
    HashTable *tags = rewriting->tags;
    memset(rewriting, 0, sizeof(*rewriting));
    rewriting->tags = tags;
}

static void make_basic_baseline(php_basic_globals *basic)
{
    basic->user_shutdown_function_names = NULL;
    basic->strtok_string = NULL;
    basic->strtok_last = NULL;
    basic->strtok_len = 0;
    basic->user_tick_functions = NULL;
    ZVAL_UNDEF(&basic->active_ini_file_section);
    SHIM_FORGET_LAST_HTTP_HEADERS(basic);
    basic->CurrentStatFile = NULL;
    basic->CurrentLStatFile = NULL;
    basic->serialize_lock = 0;
    memset(&basic->serialize, 0, sizeof(basic->serialize));
    memset(&basic->unserialize, 0, sizeof(basic->unserialize));
    basic->umask = -1;
    basic->syslog_device = NULL;
    make_rewriting_baseline(&basic->url_adapt_session_ex);
    make_rewriting_baseline(&basic->url_adapt_output_ex);
}

/* ---- the virtual working directory of the thread ---- */

static void call_chdir(void *function)
{
    zval name, result;
    ZVAL_EMPTY_STRING(&name);
    zend_call_known_function(function, NULL, NULL, &result, 1, &name, NULL);
    zval_ptr_dtor(&result);
}

/* OPcache remembers the directory and uses it to find scripts with relative names. It queries it again when PHP's
 * chdir() is called, even with a name that does not exist. */
static void directory_has_changed(void)
{
    shim_directory_follow();
    void *function = zend_hash_str_find_ptr(CG(function_table), "chdir", sizeof("chdir") - 1);
    if (function != NULL && zend_get_extension("Zend OPcache") != NULL) {
        (void)shim_call_suppressed(call_chdir, function);
    }
}

/* Puts `next` in place and returns the previous directory. */
static cwd_state swap_directory(cwd_state next)
{
    cwd_state before = *shim_directory();
    *shim_directory() = next;
    if (strcmp(before.cwd, next.cwd) != 0) {
        directory_has_changed();
    }
    return before;
}

static cwd_state directory_of(const char *path)
{
    return (cwd_state){.cwd = estrdup(path), .cwd_length = strlen(path)};
}

/* ---- the verbs ---- */

void shim_globals_capture(void)
{
    if (virtual_getcwd(baseline_directory, sizeof(baseline_directory)) == NULL) {
        strcpy(baseline_directory, "/");
    }
    baseline.directory = directory_of(baseline_directory);
    shim_streams_capture();
    read_structs(&baseline);
    make_sapi_baseline(&baseline.sapi);
    memset(&baseline.output, 0, sizeof(baseline.output));
    make_core_baseline(&baseline.core);
    make_basic_baseline(&baseline.basic);
}

void shim_globals_release(void)
{
    shim_streams_release();
    efree(baseline.directory.cwd);
    baseline.directory = (cwd_state){0};
}

void shim_globals_begin(void)
{
    const cwd_state directory = directory_of(baseline_directory);
    shim_streams_begin();
    /* Nothing is allocated from here on. */
    baseline.directory = swap_directory(directory);
    zend_hash_init(&BG(putenv_ht), 1, NULL, baseline.basic.putenv_ht.pDestructor, 0);
    if (BG(ctype_string) != NULL) {
        zend_string_addref(BG(ctype_string));
    }
}

void shim_globals_suspend(shim_globals_state *state)
{
    if (BG(umask) != -1) {
        /* Requests begin with the mask of the boot script: only their own masks are removed from the thread. */
        const bool is_boot = shim_current != NULL && shim_current->is_boot;
        state->umask = umask((mode_t)BG(umask));
        if (is_boot) {
            umask(state->umask);
        }
    }
    if (SG(request_info).request_body != NULL) {
        shim_keep_open(SG(request_info).request_body);
    }
    read_structs(state);
    shim_streams_suspend(&state->streams);
    write_structs(&baseline);
    state->directory = swap_directory(baseline.directory);
}

void shim_globals_resume(shim_globals_state *state)
{
    baseline.directory = swap_directory(state->directory);
    write_structs(state);
    shim_streams_resume(&state->streams);
    if (BG(umask) != -1) {
        umask(state->umask);
    }
}

static void free_string(zend_string **string)
{
    if (*string != NULL) {
        zend_string_release(*string);
        *string = NULL;
    }
}

/* Frees the data of output_add_rewrite_var() and session.use_trans_sid. */
static void end_rewriting(url_adapt_state_ex_t *rewriting)
{
    smart_str_free(&rewriting->buf);
    smart_str_free(&rewriting->tag);
    smart_str_free(&rewriting->arg);
    smart_str_free(&rewriting->url_app);
    smart_str_free(&rewriting->form_app);
    smart_str_free(&rewriting->attr_val);
    smart_str_free(&rewriting->result);
}

static void end_basic(void)
{
    end_rewriting(&BG(url_adapt_session_ex));
    end_rewriting(&BG(url_adapt_output_ex));
    free_string(&BG(strtok_string));
    free_string(&BG(ctype_string));
    free_string(&BG(CurrentStatFile));
    free_string(&BG(CurrentLStatFile));
    shim_putenv_drop_unfinished();
    zend_hash_destroy(&BG(putenv_ht));
    if (BG(umask) != -1) {
        umask((mode_t)BG(umask));
    }
    SHIM_FREE_LAST_HTTP_HEADERS();
    if (BG(syslog_device) != NULL) {
        php_closelog();
        free(BG(syslog_device));
        BG(syslog_device) = NULL;
    }
}

static void end_core(void)
{
    free_string(&PG(last_error_message));
    free_string(&PG(last_error_file));
    if (PG(open_basedir_modified)) {
        efree(PG(open_basedir));
        PG(open_basedir) = baseline.core.open_basedir;
        PG(open_basedir_modified) = false;
    }
    if (PG(php_sys_temp_dir) != NULL) {
        efree(PG(php_sys_temp_dir));
        PG(php_sys_temp_dir) = NULL;
    }
}

/* Returns the resource of the stream behind php://input. Scripts find that stream, and the one that it writes to, in
 * get_resources(), and may have closed it. The pointer to it is then stale, and only the resource of the stream that
 * was created at the beginning of the request remains. */
static zend_resource *resource_of_body(const php_stream *body)
{
    if (shim_current != NULL && shim_current->body != NULL) {
        return shim_current->body;
    }
    zend_resource *resource;
    ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
        if (resource->ptr == body && resource->type == php_file_le_stream()) {
            return resource;
        }
    } ZEND_HASH_FOREACH_END();
    return NULL;
}

void shim_globals_end_body(void)
{
    php_stream *body = SG(request_info).request_body;
    if (body == NULL) {
        return;
    }
    zend_resource *own = resource_of_body(body);
    SG(request_info).request_body = NULL;
    SG(post_read) = 1;
    if (shim_current != NULL) {
        shim_current->body = NULL;
    }
    shim_input_empty(body);
    shim_input_close();
    if (own != NULL && own->type == php_file_le_stream()) {
        php_stream_close(body);
    } else if (own != NULL) {
        zend_list_delete(own);
    }
}

bool shim_globals_hold(void)
{
    return BG(user_shutdown_function_names) != NULL || BG(user_tick_functions) != NULL || FG(default_context) != NULL;
}

/* Each value is removed from its place before it is freed. */
void shim_globals_drop(void)
{
    HashTable *functions = BG(user_shutdown_function_names);
    zend_llist *ticks = BG(user_tick_functions);
    php_stream_context *context = FG(default_context);
    BG(user_shutdown_function_names) = NULL;
    BG(user_tick_functions) = NULL;
    FG(default_context) = NULL;
    if (functions != NULL) {
        zend_hash_destroy(functions);
        FREE_HASHTABLE(functions);
    }
    if (ticks != NULL) {
        zend_llist_destroy(ticks);
        efree(ticks);
    }
    if (context != NULL) {
        zend_list_delete(context->res);
    }
}

void shim_globals_end(bool keeps_streams)
{
    zend_llist_clean(&PG(tick_functions));
    end_basic();
    shim_streams_end(keeps_streams);
    sapi_deactivate();
    efree(swap_directory(baseline.directory).cwd);
    end_core();
}

void shim_globals_reset(void)
{
    write_structs(&baseline);
    shim_streams_reset();
    if (shim_directory()->cwd != baseline.directory.cwd) {
        *shim_directory() = baseline.directory;
        directory_has_changed();
    }
}
