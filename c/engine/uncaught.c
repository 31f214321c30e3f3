/* Exceptions that a script has not caught, at the moment when PHP reports them.
 *
 * PHP turns the exception into the text of an error, and only the text reaches the error callback. The function that does
 * so is therefore defined here, before libphp's. */
#include "compat.h"
#include "engine/uncaught.h"

#include <dlfcn.h>

void (*shim_on_uncaught)(zend_object *exception);

typedef zend_result (*report_fn)(zend_object *, int);

static report_fn next_report;

ZEND_COLD zend_result zend_exception_error(zend_object *exception, int severity)
{
    if (shim_on_uncaught != NULL && severity == E_ERROR && instanceof_function(exception->ce, zend_ce_throwable)) {
        shim_on_uncaught(exception);
    }
    return next_report(exception, severity);
}

bool shim_uncaught_prepare(void)
{
    next_report = (report_fn)dlsym(RTLD_NEXT, "zend_exception_error");
    return next_report != NULL;
}
