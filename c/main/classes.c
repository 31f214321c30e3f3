/* The classes and functions of the namespace Svc: their table, and the readers of a worker. */
#include "async/task/task.h"
#include "async/transfer/transfer.h"
#include "compat.h"
#include "main/main.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/request/request.h"
#include "php/sapi/sapi.h"
#include "trace/trace.h"
#include "worker/connections/connections.h"
#include "worker/connections/instances/instances.h"
#include "worker/request/request.h"

static zend_class_entry *class_worker;

ZEND_METHOD(Svc_Worker, serve);
PHP_FUNCTION(frankenphp_handle_request);
ZEND_NAMED_FUNCTION(shim_sleep);
ZEND_NAMED_FUNCTION(shim_wait_readable);
ZEND_NAMED_FUNCTION(shim_wait_writable);

/* ---- Svc\Worker ---- */

static bool is_worker(void)
{
    if (shim_own_worker.host == NULL) {
        zend_throw_error(NULL, "Not running in worker mode (WORKER_MODE_ENABLED)");
        return false;
    }
    return true;
}

/* Ends the worker once its requests have ended; it is then booted again. */
ZEND_METHOD(Svc_Worker, scheduleExit)
{
    ZEND_PARSE_PARAMETERS_NONE();
    if (!is_worker()) {
        RETURN_THROWS();
    }
    shim_own_worker.exit_scheduled = true;
}

ZEND_METHOD(Svc_Worker, current)
{
    ZEND_PARSE_PARAMETERS_NONE();
    if (!is_worker()) {
        RETURN_THROWS();
    }
    shim_sealed_make(return_value, class_worker);
}

ZEND_METHOD(Svc_Worker, id)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_LONG((zend_long)shim_own_worker.info.id);
}

ZEND_METHOD(Svc_Worker, requestCount)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_LONG((zend_long)shim_own_worker.requests);
}

ZEND_METHOD(Svc_Worker, startTime)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_DOUBLE(shim_own_worker.info.started);
}

ZEND_METHOD(Svc_Worker, memoryUsage)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_LONG((zend_long)zend_memory_usage(false));
}

/* Returns the reason why the worker is about to end: scheduled, max_memory or error; null while it is not. */
ZEND_METHOD(Svc_Worker, exitReason)
{
    ZEND_PARSE_PARAMETERS_NONE();
    if (shim_own_worker.exit_reason[0] != '\0') {
        RETURN_STRING(shim_own_worker.exit_reason);
    }
    if (shim_own_worker.tainted || shim_own_worker.has_lost_connection) {
        RETURN_STRING("error");
    }
    if (shim_own_worker.exit_scheduled) {
        RETURN_STRING("scheduled");
    }
    RETURN_NULL();
}

ZEND_METHOD(Svc_Worker, __construct)
{
    ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_serve, 0, 1, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO(0, handler, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_handle, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, callback, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_void, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_int, 0, 0, IS_LONG, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_float, 0, 0, IS_DOUBLE, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_reason, 0, 0, IS_STRING, 1)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_worker, 0, 0, Svc\\Worker, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_INFO_EX(arginfo_construct, 0, 0, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_sleep, 0, 1, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO(0, seconds, IS_DOUBLE, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_release_connections, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_wait, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_INFO(0, stream)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, timeout, IS_DOUBLE, 1, "null")
ZEND_END_ARG_INFO()

static const zend_function_entry worker_methods[] = {
    ZEND_ME(Svc_Worker, __construct, arginfo_construct, ZEND_ACC_PRIVATE)
    ZEND_ME(Svc_Worker, serve, arginfo_serve, ZEND_ACC_PUBLIC | ZEND_ACC_STATIC)
    ZEND_ME(Svc_Worker, scheduleExit, arginfo_void, ZEND_ACC_PUBLIC | ZEND_ACC_STATIC)
    ZEND_ME(Svc_Worker, current, arginfo_worker, ZEND_ACC_PUBLIC | ZEND_ACC_STATIC)
    ZEND_ME(Svc_Worker, id, arginfo_int, ZEND_ACC_PUBLIC)
    ZEND_ME(Svc_Worker, requestCount, arginfo_int, ZEND_ACC_PUBLIC)
    ZEND_ME(Svc_Worker, startTime, arginfo_float, ZEND_ACC_PUBLIC)
    ZEND_ME(Svc_Worker, memoryUsage, arginfo_int, ZEND_ACC_PUBLIC)
    ZEND_ME(Svc_Worker, exitReason, arginfo_reason, ZEND_ACC_PUBLIC)
    ZEND_FE_END
};

const zend_function_entry shim_worker_functions[] = {
    ZEND_NS_NAMED_FE("Svc", sleep, shim_sleep, arginfo_sleep)
    ZEND_NS_NAMED_FE("Svc", wait_readable, shim_wait_readable, arginfo_wait)
    ZEND_NS_NAMED_FE("Svc", wait_writable, shim_wait_writable, arginfo_wait)
    ZEND_NS_NAMED_FE("Svc", release_connections, shim_release_connections, arginfo_release_connections)
    PHP_FE(frankenphp_handle_request, arginfo_handle)
    PHP_FE_END
};

void shim_classes_register(zend_module_entry *module)
{
    class_worker = shim_sealed_class("Svc\\Worker", worker_methods, NULL);
    shim_bottom_define(class_worker, module);
    shim_request_class_register();
    shim_async_exceptions_register();
    shim_busy_error_register();
    shim_task_class_register(shim_task_methods);
    (void)zend_register_functions(NULL, shim_task_functions, NULL, MODULE_PERSISTENT);
    (void)zend_register_functions(NULL, shim_per_request_functions, NULL, MODULE_PERSISTENT);
    (void)zend_register_functions(NULL, shim_cache_functions, NULL, MODULE_PERSISTENT);
    shim_span_class_register();
    (void)zend_register_functions(NULL, shim_trace_functions, NULL, MODULE_PERSISTENT);
    shim_running_install();
}
