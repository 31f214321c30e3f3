/* Uncaught exceptions and fatal errors, with their traces, for the span of a request and for the host's page about them. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "trace/trace.h"

#include <ctype.h>

/* Whether the host wants them of each request, recorded or not. Set before PHP starts its threads. */
static bool is_for_all;

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
    const bool was_told = shim_uncaught_was_recorded();
    if ((is_of_exception && was_told) || !is_wanted()) {
        return;
    }
    smart_str trace = {0};
    shim_view class = is_of_exception ? class_in(error->message) : (shim_view){0};
    const bool has_class = class.length > 0;
    if (!has_class) {
        const char *name = name_of(error->error_type);
        class = shim_view_of(name, strlen(name));
    }
    shim_execution_trace(&trace, error->file, error->line);
    shim_host.io.fail(shim_current->host, class, error->message, shim_trace_text_view(&trace), has_class);
    shim_trace_text_free(&trace);
}

void shim_failures_install(bool reports_all)
{
    is_for_all = reports_all;
    shim_on_uncaught = note_exception;
}
