/* Exceptions that a script has not caught, at the moment when PHP reports them.
 *
 * PHP turns the exception into the text of an error, and only the text reaches the error callback. The executable's
 * definition of the function that does so therefore precedes that of libphp. When no function of a script is executing
 * (in destructors at its end, in shutdown functions, in callbacks of the output), PHP reports their exceptions from
 * within the file of that function, and libphp may be linked so that such a call does not reach this definition: the
 * function that throws is therefore defined here, too. */
#include "compat.h"
#include "php/engine/engine.h"

#include <dlfcn.h>

void (*shim_on_uncaught)(zend_object *exception);

typedef zend_result (*report_fn)(zend_object *, int);
typedef void (*throw_fn)(zend_object *);

static report_fn next_report;
static throw_fn next_throw;

/* The exception that was passed on and is being reported: both functions may see it. Only its address is used. */
static __thread const zend_object *told;

static void tell(zend_object *exception)
{
    if (exception != told && instanceof_function(exception->ce, zend_ce_throwable)) {
        told = exception;
        shim_on_uncaught(exception);
    }
}

bool shim_uncaught_was_recorded(void)
{
    const bool was_told = told != NULL;
    told = NULL;
    return was_told;
}

ZEND_COLD zend_result zend_exception_error(zend_object *exception, int severity)
{
    if (shim_on_uncaught != NULL && severity == E_ERROR) {
        tell(exception);
    }
    return next_report(exception, severity);
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
    if (shim_on_uncaught != NULL) {
        /* A new thread may arrive here before its startup returns to the shim. */
        ZEND_TSRMLS_CACHE_UPDATE();
        zend_object *reported = reported_at_once(exception);
        if (reported != NULL) {
            tell(reported);
        }
    }
    next_throw(exception);
}

bool shim_uncaught_prepare(void)
{
    next_report = (report_fn)dlsym(RTLD_NEXT, "zend_exception_error");
    next_throw = (throw_fn)dlsym(RTLD_NEXT, "zend_throw_exception_internal");
    return next_report != NULL && next_throw != NULL;
}
