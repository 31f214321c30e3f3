/* What ends a script, as events of its request's span: exceptions that nobody catches, and fatal errors. */
#include "compat.h"
#include "context/context.h"
#include "context/host.h"
#include "engine/uncaught.h"
#include "jump/guard.h"
#include "trace/exception_text.h"
#include "trace/failures.h"

static bool is_wanted(void)
{
    return shim_request_host() != NULL && !shim_is_quiet() && shim_host.span.own(shim_current->host) != 0;
}

static void note_exception(zend_object *exception)
{
    if (!is_wanted()) {
        return;
    }
    smart_str trace = {0};
    const zend_string *class = exception->ce->name;
    shim_exception_trace(&trace, exception);
    shim_host.span.fail(shim_current->host, shim_view_of(ZSTR_VAL(class), ZSTR_LEN(class)),
                        shim_exception_message(exception), shim_trace_text_view(&trace), true);
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

void shim_failure_note(const shim_log *error, bool is_of_exception)
{
    if (is_of_exception || !is_wanted()) {
        return;
    }
    smart_str trace = {0};
    const char *class = name_of(error->error_type);
    shim_execution_trace(&trace, error->file, error->line);
    shim_host.span.fail(shim_current->host, shim_view_of(class, strlen(class)), error->message,
                        shim_trace_text_view(&trace), false);
    shim_trace_text_free(&trace);
}

void shim_failures_install(void)
{
    shim_on_uncaught = note_exception;
}
