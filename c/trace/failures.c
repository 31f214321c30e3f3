/* Uncaught exceptions and fatal errors, with their traces, for the span of a request and for the host's page about them.
 *
 * PHP turns an exception that no code has caught into the text of an error, and only the text reaches the error callback.
 * The executable's definition of the function that does so therefore precedes that of libphp. When no function of a script
 * is executing (in destructors at its end, in shutdown functions, in callbacks of the output), PHP reports exceptions from
 * within the file of that function, and libphp may be linked so that such a call does not reach this definition: the
 * function that throws is therefore defined here, too. */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"
#include "trace/trace.h"

#include <ctype.h>

/* Whether the host wants them of each request, recorded or not. Set before PHP starts its threads. */
static bool is_for_all;
static bool is_reporting;

static bool is_wanted(void)
{
    return shim_request_host() != NULL && !shim_in_switch
        && (is_for_all || shim_host.span.own(shim_current->host) != 0);
}

static void note_exception(zend_object *exception)
{
    if (!is_wanted()) {
        return;
    }
    smart_str trace = {0};
    shim_exception_trace(&trace, exception);
    shim_host.io.fail(shim_current->host, shim_exception_class(exception), shim_exception_message(exception),
                      shim_trace_text_view(&trace), true);
    shim_trace_text_free(&trace);
}

/* ---- uncaught exceptions ---- */

/* The exception that was passed on and is being reported: both functions may see it. Only its address is used. */
static __thread const zend_object *noted;

static void note_once(zend_object *exception)
{
    if (exception != noted && instanceof_function(exception->ce, zend_ce_throwable)) {
        noted = exception;
        note_exception(exception);
    }
}

/* Whether the exception that PHP is reporting now was passed on. Clears the record: call once per report. */
static bool was_recorded(void)
{
    const bool was_noted = noted != NULL;
    noted = NULL;
    return was_noted;
}

ZEND_COLD zend_result zend_exception_error(zend_object *exception, int severity)
{
    if (is_reporting && severity == E_ERROR) {
        note_once(exception);
    }
    return NEXT(zend_exception_error)(exception, severity);
}

/* Returns the exception that PHP reports as soon as it is thrown (or, with NULL, after it has left all functions),
 * because no code can catch it. NULL if there is none. */
static zend_object *reported_at_once(zend_object *exception)
{
    if (EG(current_execute_data) != NULL || Z_TYPE(EG(user_exception_handler)) != IS_UNDEF) {
        return NULL;
    }
    if (exception == NULL) {
        return EG(exception);
    }
    const bool is_kept = EG(exception) != NULL || exception->ce == zend_ce_parse_error
        || exception->ce == zend_ce_compile_error;
    return is_kept ? NULL : exception;
}

ZEND_COLD void zend_throw_exception_internal(zend_object *exception)
{
    if (is_reporting) {
        /* A new thread may arrive here before its startup returns to the shim. */
        ZEND_TSRMLS_CACHE_UPDATE();
        zend_object *reported = reported_at_once(exception);
        if (reported != NULL) {
            note_once(reported);
        }
    }
    NEXT(zend_throw_exception_internal)(exception);
}

/* ---- fatal errors ---- */

static const char *name_of(int type)
{
    switch (type) {
    case E_CORE_ERROR:
        return "E_CORE_ERROR";
    case E_COMPILE_ERROR:
        return "E_COMPILE_ERROR";
    case E_PARSE:
        return "E_PARSE";
    case E_RECOVERABLE_ERROR:
        return "E_RECOVERABLE_ERROR";
    case E_USER_ERROR:
        return "E_USER_ERROR";
    default:
        return "E_ERROR";
    }
}

static bool is_in_names(char byte)
{
    return isalnum((unsigned char)byte) || byte == '_' || byte == '\\' || (unsigned char)byte >= 0x80;
}

/* Returns the class in the text of an uncaught exception; empty if the text is a different one. */
static shim_view class_in(shim_view text)
{
    static const char before[] = "Uncaught ";
    const size_t skipped = sizeof(before) - 1;
    if (text.length < skipped || memcmp(text.bytes, before, skipped) != 0) {
        return (shim_view){0};
    }
    size_t end = skipped;
    while (end < text.length && is_in_names(text.bytes[end])) {
        end++;
    }
    return shim_view_of(text.bytes + skipped, end - skipped);
}

void shim_failure_note(const shim_log *error, bool is_of_exception)
{
    const bool was_noted = was_recorded();
    if ((is_of_exception && was_noted) || !is_wanted()) {
        return;
    }
    smart_str trace = {0};
    shim_view class = is_of_exception ? class_in(error->message) : (shim_view){0};
    const bool has_class = class.length > 0;
    if (!has_class) {
        class = shim_view_of_cstr(name_of(error->error_type));
    }
    shim_execution_trace(&trace, error->file, error->line);
    shim_host.io.fail(shim_current->host, class, error->message, shim_trace_text_view(&trace), has_class);
    shim_trace_text_free(&trace);
}

void shim_failures_install(bool reports_all)
{
    is_for_all = reports_all;
    is_reporting = true;
}
