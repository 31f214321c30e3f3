/* Errors and the log: passes PHP's messages to the host, one record each.
 *
 * A fatal error also ends its script here: in a worker by a bailout that leaves the worker's other requests intact. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/sapi/sapi.h"
#include "shim.h"

#include <syslog.h>
#include <unistd.h>

/* The error that php_error_cb is turning into a line of text, so that the line can be logged with its components. */
static __thread const shim_log *error_in_progress;

void shim_log_message(const char *message, int priority)
{
    shim_log record;
    if (error_in_progress != NULL) {
        record = *error_in_progress;
        record.syslog_priority = priority;
    } else {
        record = (shim_log){
            .source = SHIM_LOG_MESSAGE,
            .syslog_priority = priority,
            .message = shim_view_of_cstr(message),
            .span = shim_current_span,
        };
        if (shim_current != NULL && EG(current_execute_data) != NULL) {
            zend_string *file = zend_get_executed_filename_ex();
            if (file != NULL) {
                record.file = shim_view_of_string(file);
                record.line = zend_get_executed_lineno();
            }
        }
    }
    shim_host.io.log(shim_current != NULL ? shim_current->host : NULL, &record);
}

/* ---- silenced errors ---- */

/* ZEND_BEGIN_SILENCE reduces error_reporting to the fatal errors, which is also what a script may have set itself. Only the
 * ranges of opcodes in which a silence is live distinguish the two. */
static bool is_in_silence(const zend_op_array *code, const zend_op *opline)
{
    const uint32_t at = (uint32_t)(opline - code->opcodes);
    for (int i = 0; i < code->last_live_range; i++) {
        const zend_live_range *range = &code->live_range[i];
        if ((range->var & ZEND_LIVE_MASK) == ZEND_LIVE_SILENCE && range->start <= at && at < range->end) {
            return true;
        }
    }
    return false;
}

/* Whether an error of this type, raised now, is silenced: by @ in one of the active functions, or by svc. An error_reporting
 * that a script or php.ini sets silences nothing in this sense. */
static bool is_silenced(int type)
{
    if ((type & E_FATAL_ERRORS) != 0) {
        return false;
    }
    if (EG(error_reporting) == SHIM_REPORTS_NOTHING) {
        return true;
    }
    if (!E_HAS_ONLY_FATAL_ERRORS(EG(error_reporting))) {
        return false;
    }
    for (const zend_execute_data *frame = EG(current_execute_data); frame != NULL; frame = frame->prev_execute_data) {
        if (frame->func != NULL && ZEND_USER_CODE(frame->func->type) && frame->opline != NULL &&
            is_in_silence(&frame->func->op_array, frame->opline)) {
            return true;
        }
    }
    return false;
}

/* ---- errors ---- */

static void (*next_error_cb)(int, zend_string *, const uint32_t, zend_string *);
static void (*next_on_timeout)(int);

/* Whether the error ends its script by a bailout in a worker whose other requests continue: PHP is prevented from
 * bailing out, and the shim does so itself. */
static bool is_ours_to_bail_out(int type)
{
    const int fatal = E_FATAL_ERRORS | E_RECOVERABLE_ERROR;
    return shim_own_worker.serving && shim_current != NULL && (type & E_DONT_BAIL) == 0 && (type & fatal) != 0;
}

/* Bails out after an error in the compiler, which only PHP can clean up, without another message. No script code runs
 * meanwhile. */
static void bail_out_of_compiler(int type, zend_string *file, const uint32_t line, zend_string *message)
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

/* The number of frames that are kept of a fatal error's backtrace. */
enum { FRAMES = 1000 };

/* Called before a fatal error is reported. PHP 8.5 records its backtrace for error_get_last(), with every frame and
 * without a limit: for an endless recursion, that takes several times the memory limit. Keeps only the innermost
 * frames. */
static void shorten_backtrace(void)
{
    zval whole, innermost;
    SHIM_READ_BACKTRACE(&whole);
    if (Z_TYPE(whole) != IS_ARRAY || zend_hash_num_elements(Z_ARRVAL(whole)) <= FRAMES) {
        return;
    }
    array_init_size(&innermost, FRAMES);
    zval *frame;
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL(whole), frame) {
        if (zend_hash_num_elements(Z_ARRVAL(innermost)) == FRAMES) {
            break;
        }
        Z_TRY_ADDREF_P(frame);
        zend_hash_next_index_insert_new(Z_ARRVAL(innermost), frame);
    } ZEND_HASH_FOREACH_END();
    SHIM_WRITE_BACKTRACE(&innermost);
    /* The frames hold the values that the trace refers to; a collection would run destructors in the middle of the error. */
    const bool was_protected = gc_protect(true);
    zval_ptr_dtor(&whole);
    gc_protect(was_protected);
}

static shim_log error_record(int type, zend_string *file, uint32_t line, zend_string *message)
{
    return (shim_log){
        .source = SHIM_LOG_ERROR,
        .error_type = type & E_ALL,
        .message = shim_view_of_string(message),
        .file = file != NULL ? shim_view_of_string(file) : (shim_view){0},
        .line = line,
        .span = shim_current_span,
    };
}

/* Whether a method of ext/soap is running. Its error callback throws a SoapFault in place of an error, with the place and
 * the trace of the script. */
static bool is_running_soap(void)
{
    for (const zend_execute_data *frame = EG(current_execute_data); frame != NULL; frame = frame->prev_execute_data) {
        const zend_class_entry *scope = frame->func != NULL && frame->func->type == ZEND_INTERNAL_FUNCTION
            ? frame->func->common.scope
            : NULL;
        if (scope != NULL && (zend_string_equals_literal(scope->name, "SoapClient") ||
                              zend_string_equals_literal(scope->name, "SoapServer"))) {
            return true;
        }
    }
    return false;
}

/* While PHP reports that memory is exhausted, it discards the output buffers and calls their callbacks, without a memory
 * limit. After infinite recursion, a backtrace of all frames takes about five times the limit, and each exception in a
 * callback has one. The caller restores the frames, for errors in callbacks; after the first error, a bailout follows.
 *
 * An error callback that throws needs a frame: without one, throwing reports another fatal error. */
static void hide_frames_if_memory_is_exhausted(int type)
{
    if ((type & E_ERROR) != 0 && zend_alloc_in_memory_limit_error_reporting()) {
        EG(current_execute_data) = NULL;
    }
}

/* Marks the request as failed: the error ends its script. */
static void note_failure(int type, const shim_log *record)
{
    shim_request_failed(is_ours_to_bail_out(type));
    shim_execution_timer_script_failed();
    /* Errors that report exceptions do not bail out. */
    SHIM_CALL_REQUEST_HOOKS(fail, record, (type & E_DONT_BAIL) != 0);
    /* After each bailout of the last code, PHP continues and sends the output. */
    if (shim_current->is_in_last_code) {
        shim_answer_time_limit(shim_current);
    }
}

static void observe_error(int type, zend_string *file, const uint32_t line, zend_string *message)
{
    const shim_log record = error_record(type, file, line, message);
    /* A new thread reads the directives again, and may report errors in them before its startup returns to the shim. */
    ZEND_TSRMLS_CACHE_UPDATE();
    if (shim_in_switch) {
        if ((type & E_DONT_BAIL) == 0 && (type & (E_FATAL_ERRORS | E_RECOVERABLE_ERROR)) != 0) {
            zend_bailout();
        }
        return;
    }
    const bool is_failure = shim_current != NULL && (type & E_ALL & (E_FATAL_ERRORS | E_RECOVERABLE_ERROR)) != 0;
    /* SoapClient ends the bailout, and the script may catch its SoapFault; but no script continues after its time limit. */
    const bool may_be_caught = is_failure && !shim_current->timed_out && is_running_soap();
    if (is_failure && !may_be_caught) {
        note_failure(type, &record);
    }
    shorten_backtrace();
    error_in_progress = &record;
    const bool is_bailing_out = is_ours_to_bail_out(type);
    zend_execute_data *const frame = EG(current_execute_data);
    if (!may_be_caught) {
        hide_frames_if_memory_is_exhausted(type);
    }
    /* Bails out if the error ends the script; the pointer into this frame must have been cleared by then. */
    zend_try {
        next_error_cb(is_bailing_out ? type | E_DONT_BAIL : type, file, line, message);
    } zend_catch {
        if (may_be_caught && EG(exception) == NULL) {
            note_failure(type, &record);
        }
        error_in_progress = NULL;
        zend_bailout();
    } zend_end_try();
    if (may_be_caught) {
        note_failure(type, &record);
    }
    EG(current_execute_data) = frame;
    error_in_progress = NULL;
    if (is_bailing_out) {
        shim_memory_limit_apply();
        shim_callee_forget();
        if (CG(in_compilation)) {
            bail_out_of_compiler(type, file, line, message);
        }
        zend_bailout();
    }
}

/* Whether a script's own error handler is called before the error ends the script. */
static bool is_left_to_script(int type)
{
    return (type & (E_USER_ERROR | E_RECOVERABLE_ERROR)) != 0 && Z_TYPE(EG(user_error_handler)) != IS_UNDEF
        && (EG(user_error_handler_error_reporting) & type) != 0 && EG(error_handling) == EH_NORMAL;
}

/* Whether PHP's error callback will throw the error as an exception: constructors of internal classes use that. */
static bool becomes_exception(int type)
{
    const int warnings = E_WARNING | E_CORE_WARNING | E_COMPILE_WARNING | E_USER_WARNING;
    return EG(error_handling) == EH_THROW && (type & warnings) != 0;
}

/* PHP reports each error here before it calls the script's error handler and the error callback. The callback may not be
 * ours: a debugger may have replaced it for the duration of the request, and the errors that it displays are fatal too. */
static void note_error(int type, zend_string *file, uint32_t line, zend_string *message)
{
    /* As in observe_error. */
    ZEND_TSRMLS_CACHE_UPDATE();
    if (!shim_in_switch && !becomes_exception(type) && !is_silenced(type)) {
        const shim_log record = error_record(type, file, line, message);
        shim_host.io.error(&record);
    }
    const bool is_fatal = (type & (E_FATAL_ERRORS | E_RECOVERABLE_ERROR)) != 0;
    if (is_fatal && zend_error_cb != observe_error && shim_current != NULL && !shim_in_switch
        && !is_left_to_script(type)) {
        shim_request_failed(is_ours_to_bail_out(type));
    }
}

/* Called by the signal handler of the execution timer, on the thread whose time limit has expired. */
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

void shim_errors_install(void)
{
    next_error_cb = zend_error_cb;
    zend_error_cb = observe_error;
    zend_observer_error_register(note_error);
    next_on_timeout = zend_on_timeout;
    zend_on_timeout = observe_timeout;
}

/* ---- messages about the syntax of ini files ---- */

/* PHP prints them to stderr, and continues without the rest of the file. While PHP starts, such a line becomes a log record,
 * and all other output to stderr passes. */

/* The prefix of such a line. PHP prints no other lines with this prefix, which ends with two spaces. */
static const char mark[] = "PHP:  ";

static FILE *standard_error;

static void log_malformed(const char *text, size_t length)
{
    char *message = NULL;
    while (length > 0 && text[length - 1] == '\n') {
        length--;
    }
    if (asprintf(&message, "malformed directives: %.*s", (int)length, text) >= 0) {
        shim_log_message(message, LOG_ERR);
        free(message);
    }
}

static ssize_t pass(void *cookie, const char *bytes, size_t size)
{
    (void)cookie;
    const size_t length = sizeof(mark) - 1;
    if (size > length && memcmp(bytes, mark, length) == 0) {
        log_malformed(bytes + length, size - length);
        return (ssize_t)size;
    }
    return write(STDERR_FILENO, bytes, size);
}

bool shim_ini_errors_begin(void)
{
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = pass});
    if (stream == NULL) {
        return false;
    }
    /* Line-buffered: each call prints a line, which arrives as a whole. */
    (void)setvbuf(stream, NULL, _IOLBF, (size_t)2 * MAXPATHLEN);
    standard_error = stderr;
    stderr = stream;
    return true;
}

void shim_ini_errors_end(void)
{
    /* An extension may have kept a pointer to the stream. */
    (void)fflush(stderr);
    stderr = standard_error;
}
