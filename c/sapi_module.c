/* The SAPI module: PHP's calls for output, headers, body, variables and logs, passed on to the host.
 *
 * The name. Up to 8.4 OPcache works only under SAPI names that it knows, and it asks once, while extensions start.
 * So the module is `svc` (php-svc.ini, PHP_SAPI and php_sapi_name() say so), carries a name from OPcache's list from
 * our own module start-up until all extensions have started, and is `svc` again from then on. */
#include "internal.h"

bool shim_superglobals_hidden;

static char own_name[] = "svc";
static char name_known_to_opcache[] = "fpm-fcgi";

static int start_modules(sapi_module_struct *module)
{
    int result = php_module_startup(module, &shim_module);
    sapi_module.name = own_name;
    return result;
}

static void connection_aborted(void)
{
    shim_current->refused = true;
    if (shim_own_worker.host != NULL) {
        /* A jump would leave the worker's other requests with whatever this one was in the middle of. The script goes
         * on, and connection_aborted() tells it. */
        PG(connection_status) |= PHP_CONNECTION_ABORTED;
        php_output_set_status(PHP_OUTPUT_DISABLED);
        return;
    }
    /* May jump out of the script; no frame of the host is on the stack here. */
    php_handle_aborted_connection();
}

/* What a fiber hands over at once: less than the host holds as one piece, so that a long output waits here, where its
 * thread is free meanwhile, and not inside the host. Not much less: a page goes over whole. */
#define FIBER_WRITE_MAX ((size_t)1024 * 1024)

/* Lets other requests of the worker run while the reader of this one's output has no room. */
static void wait_for_reader(void)
{
    int64_t pause = 0;
    while (shim_running != NULL && shim_fiber_may_park() && shim_host.is_crowded(shim_current->host)) {
        if (!shim_park_briefly(&pause)) {
            return;
        }
    }
}

static size_t write_output(const char *bytes, size_t length)
{
    if (shim_party() == NULL || length == 0) {
        return length;
    }
    if (shim_current->finished) {
        return length;
    }
    size_t step = shim_running != NULL && length > FIBER_WRITE_MAX ? FIBER_WRITE_MAX : length;
    for (size_t done = 0; done < length; done += step) {
        size_t count = length - done < step ? length - done : step;
        wait_for_reader();
        if (!shim_host.write(shim_current->host, shim_view_of(bytes + done, count))) {
            connection_aborted();
            return 0;
        }
    }
    return length;
}

static void flush_output(void *server_context)
{
    (void)server_context;
    if (shim_party() == NULL || shim_current->finished) {
        return;
    }
    if (!SG(headers_sent)) {
        if (sapi_send_headers() == FAILURE) {
            return;
        }
        SG(headers_sent) = 1;
    }
    if (!shim_host.flush(shim_current->host)) {
        connection_aborted();
    }
}

/* Collects PHP's list of header lines into `lines`, which has room for all of them. */
static size_t collect_lines(sapi_headers_struct *headers, shim_view *lines)
{
    size_t count = 0;
    zend_llist_position position;
    for (sapi_header_struct *header = zend_llist_get_first_ex(&headers->headers, &position); header != NULL;
         header = zend_llist_get_next_ex(&headers->headers, &position)) {
        if (header->header_len > 0) {
            lines[count++] = shim_view_of(header->header, header->header_len);
        }
    }
    return count;
}

static void hand_over_head(sapi_headers_struct *headers, int status, void (*send)(void *, const shim_head *))
{
    shim_view few[32];
    size_t room = zend_llist_count(&headers->headers);
    shim_view *lines = room <= sizeof(few) / sizeof(few[0]) ? few : emalloc(room * sizeof(*lines));
    const char *line = headers->http_status_line;
    shim_head head = {
        .status = status,
        .status_line = shim_view_of(line, line != NULL ? strlen(line) : 0),
        .lines = lines,
        .count = collect_lines(headers, lines),
    };
    send(shim_current->host, &head);
    if (lines != few) {
        efree(lines);
    }
}

static int send_headers(sapi_headers_struct *headers)
{
    if (shim_party() != NULL && !shim_current->finished) {
        hand_over_head(headers, headers->http_response_code, shim_host.send_head);
    }
    return SAPI_HEADER_SENT_SUCCESSFULLY;
}

/* headers_send(103): what is set so far goes out as an informational response and stays set. */
void shim_send_interim(int status)
{
    if (shim_party() != NULL && !shim_current->finished) {
        hand_over_head(&SG(sapi_headers), status, shim_host.send_interim);
    }
}

static size_t read_post(char *buffer, size_t size)
{
    size_t total = 0;
    while (shim_party() != NULL && total < size) {
        size_t count = shim_host.read_body(shim_current->host, buffer + total, size - total);
        if (count == 0) {
            break;
        }
        total += count;
    }
    return total;
}

static char *read_cookies(void)
{
    if (shim_current == NULL || shim_current->request == NULL || !shim_current->request->has_cookies) {
        return NULL;
    }
    /* PHP keeps the pointer and does not free it. */
    const shim_view *cookies = &shim_current->request->cookies;
    return estrndup(cookies->bytes, cookies->length);
}

static int forget_cookies(void)
{
    if (SG(request_info).cookie_data != NULL) {
        efree(SG(request_info).cookie_data);
        SG(request_info).cookie_data = NULL;
    }
    return SUCCESS;
}

static zend_result request_time(double *seconds)
{
    if (shim_current == NULL) {
        return FAILURE;
    }
    *seconds = shim_current->time;
    return SUCCESS;
}

/* The error that php_error_cb is turning into a line of text, so that the line can be logged with its parts. */
static __thread const shim_log *error_in_progress;

static void log_message(const char *message, int priority)
{
    shim_log record;
    if (error_in_progress != NULL) {
        record = *error_in_progress;
        record.syslog_priority = priority;
    } else {
        record = (shim_log){
            .source = SHIM_LOG_MESSAGE,
            .syslog_priority = priority,
            .message = shim_view_of(message, strlen(message)),
        };
        if (shim_current != NULL && EG(current_execute_data) != NULL) {
            zend_string *file = zend_get_executed_filename_ex();
            if (file != NULL) {
                record.file = shim_view_of(ZSTR_VAL(file), ZSTR_LEN(file));
                record.line = zend_get_executed_lineno();
            }
        }
    }
    shim_host.log(shim_current != NULL ? shim_current->host : NULL, &record);
}

static void (*next_error_cb)(int, zend_string *, const uint32_t, zend_string *);
static void (*next_on_timeout)(int);

/* Whether the error ends its script by a jump, in a worker whose other requests go on: PHP is told not to jump, and we do. */
static bool is_ours_to_jump(int type)
{
    const int fatal = E_FATAL_ERRORS | E_RECOVERABLE_ERROR;
    return shim_own_worker.serving && shim_current != NULL && (type & E_DONT_BAIL) == 0 && (type & fatal) != 0;
}

/* Out of the compiler, which only PHP can tidy up: it jumps, without a word more. No script's code runs meanwhile. */
static void jump_from_compiler(int type, zend_string *file, const uint32_t line, zend_string *message)
{
    const bool logs = PG(log_errors);
    const bool sent = SG(headers_sent);
    const uint8_t displays = PG(display_errors);
    PG(log_errors) = false;
    PG(display_errors) = 0;
    SG(headers_sent) = true;
    zend_try {
        next_error_cb(type, file, line, message);
    } zend_end_try();
    SG(headers_sent) = sent;
    PG(display_errors) = displays;
    PG(log_errors) = logs;
}

static void observe_error(int type, zend_string *file, const uint32_t line, zend_string *message)
{
    const shim_log record = {
        .source = SHIM_LOG_ERROR,
        .error_type = type & E_ALL,
        .message = shim_view_of(ZSTR_VAL(message), ZSTR_LEN(message)),
        .file = file != NULL ? shim_view_of(ZSTR_VAL(file), ZSTR_LEN(file)) : (shim_view){0},
        .line = line,
    };
    /* A new thread reads the directives anew, and may complain about one, before its start returns to us. */
    ZEND_TSRMLS_CACHE_UPDATE();
    if (shim_is_quiet()) {
        if ((type & E_DONT_BAIL) == 0 && (type & (E_FATAL_ERRORS | E_RECOVERABLE_ERROR)) != 0) {
            zend_bailout();
        }
        return;
    }
    if (shim_current != NULL && (type & E_ALL & (E_FATAL_ERRORS | E_RECOVERABLE_ERROR)) != 0) {
        shim_current->fatal = true;
        shim_execution_timer_taken();
    }
    shim_executor_shorten_backtrace();
    error_in_progress = &record;
    const bool is_jumping = is_ours_to_jump(type);
    /* Jumps when the error ends the script; the pointer into this frame must be gone by then. */
    zend_try {
        next_error_cb(is_jumping ? type | E_DONT_BAIL : type, file, line, message);
    } zend_catch {
        error_in_progress = NULL;
        zend_bailout();
    } zend_end_try();
    error_in_progress = NULL;
    if (is_jumping) {
        shim_memory_limit_apply();
        shim_callee_forget();
        if (CG(in_compilation)) {
            jump_from_compiler(type, file, line, message);
        }
        zend_bailout();
    }
}

/* Whether a script's own handler of errors is asked before the error ends the script. */
static bool is_left_to_script(int type)
{
    return (type & (E_USER_ERROR | E_RECOVERABLE_ERROR)) != 0 && Z_TYPE(EG(user_error_handler)) != IS_UNDEF
        && (EG(user_error_handler_error_reporting) & type) != 0 && EG(error_handling) == EH_NORMAL;
}

/* PHP tells of each error here before it calls whoever handles errors. That need not be us: a debugger may have taken our
 * place for as long as the request runs, and what it shows is a fatal error all the same. */
static void note_error(int type, zend_string *file, uint32_t line, zend_string *message)
{
    (void)file;
    (void)line;
    (void)message;
    const bool is_fatal = (type & (E_FATAL_ERRORS | E_RECOVERABLE_ERROR)) != 0;
    if (is_fatal && zend_error_cb != observe_error && shim_current != NULL && !shim_is_quiet()
        && !is_left_to_script(type)) {
        shim_current->fatal = true;
    }
}

/* Called by the signal handler of the execution timer, on the thread whose time is up. */
static void observe_timeout(int seconds)
{
    if (shim_current != NULL) {
        shim_current->timed_out = true;
    }
    shim_execution_timer_fired();
    if (next_on_timeout != NULL) {
        next_on_timeout(seconds);
    }
}

void shim_sapi_hooks_install(void)
{
    next_error_cb = zend_error_cb;
    zend_error_cb = observe_error;
    zend_observer_error_register(note_error);
    next_on_timeout = zend_on_timeout;
    zend_on_timeout = observe_timeout;
}

static PHP_MINIT_FUNCTION(svc)
{
    (void)type;
    shim_classes_register(&shim_module);
    shim_frankenphp_register(module_number);
    if (shim_superglobals_hidden) {
        /* Each thread copies the table of superglobals when all extensions have started. */
        shim_superglobals_hide();
    }
    sapi_module.name = name_known_to_opcache;
    return SUCCESS;
}

/* If nothing was printed, PHP would call what header_register_callback() was given when extensions have ended their
 * request, and that may use what they have freed. A jump must not keep the others from their end. */
static void send_head_by_callback(void)
{
    if (!SG(headers_sent) && Z_TYPE(SG(callback_func)) != IS_UNDEF) {
        zend_try {
            (void)sapi_send_headers();
        } zend_end_try();
    }
}

/* Extensions end a request in the reverse of the order in which they started: before session does. */
static PHP_RSHUTDOWN_FUNCTION(svc)
{
    (void)type;
    (void)module_number;
    send_head_by_callback();
    if (CG(unclean_shutdown)) {
        shim_after_jump();
    }
    return SUCCESS;
}

/* Behind the end of all extensions. */
static ZEND_MODULE_POST_ZEND_DEACTIVATE_D(svc)
{
    shim_session_close(NULL);
    return SUCCESS;
}

static PHP_MINFO_FUNCTION(svc)
{
    (void)zend_module;
    php_info_print_table_start();
    php_info_print_table_row(2, "svc", "enabled");
    php_info_print_table_end();
}

zend_module_entry shim_module = {
    STANDARD_MODULE_HEADER,
    "svc",
    shim_worker_functions,
    PHP_MINIT(svc),
    NULL,
    NULL,
    PHP_RSHUTDOWN(svc),
    PHP_MINFO(svc),
    SVC_VERSION,
    NO_MODULE_GLOBALS,
    ZEND_MODULE_POST_ZEND_DEACTIVATE_N(svc),
    STANDARD_MODULE_PROPERTIES_EX,
};

sapi_module_struct shim_sapi = {
    .name = own_name,
    .pretty_name = "svc",
    .startup = start_modules,
    .deactivate = forget_cookies,
    .shutdown = php_module_shutdown_wrapper,
    .ub_write = write_output,
    .flush = flush_output,
    .getenv = shim_server_variable,
    .sapi_error = php_error,
    .send_headers = send_headers,
    .read_post = read_post,
    .read_cookies = read_cookies,
    .register_server_variables = shim_server_variables_register,
    .log_message = log_message,
    .get_request_time = request_time,
    .php_ini_ignore_cwd = 1,
};
