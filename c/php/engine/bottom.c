/* The bottom frame of a request.
 *
 * Scripts see it in their backtraces as Svc\Worker::request(), and the engine names it in its messages. Scripts cannot
 * call it. */
#include "compat.h"
#include "php/engine/engine.h"

static zend_function request = {ZEND_INTERNAL_FUNCTION};

void shim_bottom_define(zend_class_entry *class, zend_module_entry *module)
{
    request.common.scope = class;
    request.internal_function.module = module;
    request.common.fn_flags = ZEND_ACC_PRIVATE | ZEND_ACC_STATIC;
    request.common.function_name = zend_new_interned_string(zend_string_init("request", sizeof("request") - 1, 1));
}

void shim_bottom_enter(zend_execute_data *frame)
{
    memset(frame, 0, sizeof(*frame));
    frame->func = &request;
    Z_CE(frame->This) = request.common.scope;
    frame->prev_execute_data = EG(current_execute_data);
    EG(current_execute_data) = frame;
}
