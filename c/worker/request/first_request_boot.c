/* Applications that boot inside their first request.
 *
 * A script with its own loop may load its application only when the first request arrives. The application's permanent
 * settings (error handlers, the time zone) would then end with this request. If the script had no error handler before
 * its first request and has one after it, the script therefore inherits these settings from the request. Scripts that
 * booted earlier inherit nothing: changes by requests remain local to them. */
#include "compat.h"
#include "php/context/context.h"
#include "worker/request/request.h"

static __thread struct {
    bool expected;
    zval error_handler;
    int error_handler_levels;
    zval exception_handler;
    zval zone;
} boot;

/* Call before a request of the script's own loop. */
void shim_first_request_boot_expect(void)
{
    boot.expected = shim_own_worker.requests == 0 && Z_TYPE(EG(user_error_handler)) == IS_UNDEF;
}

/* Call at the end of the request, while its settings are in place. */
void shim_first_request_boot_take(void)
{
    if (!boot.expected || Z_TYPE(EG(user_error_handler)) == IS_UNDEF) {
        return;
    }
    ZVAL_COPY(&boot.error_handler, &EG(user_error_handler));
    boot.error_handler_levels = EG(user_error_handler_error_reporting);
    ZVAL_COPY(&boot.exception_handler, &EG(user_exception_handler));
    zval function;
    ZVAL_STRING(&function, "date_default_timezone_get");
    (void)call_user_function(NULL, NULL, &function, &boot.zone, 0, NULL);
    zval_ptr_dtor(&function);
}

/* Call after the request, when the settings of the script are in place. */
void shim_first_request_boot_inherit(void)
{
    boot.expected = false;
    if (Z_TYPE(boot.error_handler) == IS_UNDEF) {
        return;
    }
    EG(user_error_handler_error_reporting) = boot.error_handler_levels;
    ZVAL_COPY_VALUE(&EG(user_error_handler), &boot.error_handler);
    if (Z_TYPE(EG(user_exception_handler)) == IS_UNDEF) {
        ZVAL_COPY_VALUE(&EG(user_exception_handler), &boot.exception_handler);
    } else {
        zval_ptr_dtor(&boot.exception_handler);
    }
    ZVAL_UNDEF(&boot.error_handler);
    ZVAL_UNDEF(&boot.exception_handler);
    if (Z_TYPE(boot.zone) == IS_STRING) {
        zval function, result;
        ZVAL_STRING(&function, "date_default_timezone_set");
        (void)call_user_function(NULL, NULL, &function, &result, 1, &boot.zone);
        zval_ptr_dtor(&function);
        zval_ptr_dtor(&result);
    }
    zval_ptr_dtor(&boot.zone);
    ZVAL_UNDEF(&boot.zone);
}
