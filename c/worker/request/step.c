/* A step of a request of worker mode: code that may run script code, and may end by a bailout or an exception.
 *
 * Promises: an uncaught exception is reported on behalf of the step's request, to the script's own handler or to the
 * log; exit() is not an exception. */
#include "compat.h"
#include "php/context/context.h"
#include "worker/bailout/guard.h"
#include "worker/request/step.h"
#include "worker/stack/fiber.h"

static bool is_exit(const zend_object *exception)
{
    return zend_is_unwind_exit(exception) || zend_is_graceful_exit(exception);
}

/* Calls the user's exception handler like zend_user_exception_handler(), which drops exceptions of the handler unless
 * it is called at the bottom of the stack. A handler that does not return is not called again. */
static void call_exception_handler(void)
{
    zend_object *exception = EG(exception);
    zval argument, result, handler;
    EG(exception) = NULL;
    ZVAL_OBJ(&argument, exception);
    ZVAL_COPY_VALUE(&handler, &EG(user_exception_handler));
    zend_stack_push(&EG(user_exception_handlers), &handler);
    ZVAL_UNDEF(&EG(user_exception_handler));
    ZVAL_UNDEF(&result);
    bool called = call_user_function(NULL, NULL, &handler, &result, 1, &argument) == SUCCESS;
    zval_ptr_dtor(&result);
    if (called) {
        OBJ_RELEASE(exception);
    } else {
        EG(exception) = exception;
    }
    zval *before = zend_stack_top(&EG(user_exception_handlers));
    if (EG(exception) == NULL && Z_TYPE(EG(user_exception_handler)) == IS_UNDEF && before != NULL) {
        ZVAL_COPY_VALUE(&EG(user_exception_handler), before);
        zend_stack_del_top(&EG(user_exception_handlers));
    }
}

void shim_exception_report(void)
{
    if (EG(exception) != NULL && !is_exit(EG(exception)) && Z_TYPE(EG(user_exception_handler)) != IS_UNDEF) {
        call_exception_handler();
    }
    if (EG(exception) == NULL) {
        return;
    }
    if (is_exit(EG(exception))) {
        if (shim_current != NULL) {
            shim_current->exited = true;
        }
        zend_clear_exception();
    } else {
        (void)zend_exception_error(EG(exception), E_ERROR);
    }
}

typedef struct call_of_step {
    void (*step)(shim_fiber *);
    shim_fiber *fiber;
} call_of_step;

static void call_step(void *argument)
{
    const call_of_step *call = argument;
    call->step(call->fiber);
    shim_exception_report();
}

bool shim_step(const shim_place *here, void (*step)(shim_fiber *), shim_fiber *fiber)
{
    call_of_step call = {step, fiber};
    return shim_guard(here, call_step, &call);
}
