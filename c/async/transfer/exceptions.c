/* The exceptions of tasks: Svc\Async\Exception and its subclasses. */
#include "async/transfer/transfer.h"
#include "php/engine/engine.h"

#include <ext/spl/spl_exceptions.h>

zend_class_entry *shim_async_exception, *shim_rejected_exception, *shim_transfer_exception, *shim_task_exception,
    *shim_timeout_exception, *shim_cancelled_exception, *shim_aggregate_exception;

/* ---- throwing ---- */

bool shim_transfer_throw(const char *format, ...)
{
    va_list arguments;
    char *message;
    if (EG(exception) != NULL && shim_is_exit(EG(exception))) {
        return false;
    }
    va_start(arguments, format);
    vspprintf(&message, 0, format, arguments);
    va_end(arguments);
    /* The engine sets an exception that is already thrown as the new one's previous. */
    zend_throw_exception(shim_transfer_exception, message, 0);
    efree(message);
    return false;
}

static void set_text(zend_object *exception, zend_class_entry *scope, const char *name, shim_view text)
{
    zend_update_property_stringl(scope, exception, name, strlen(name), text.bytes != NULL ? text.bytes : "", text.length);
}

void shim_task_exception_throw(shim_view message, zend_long code, shim_view class_name, shim_view trace, zend_object *previous)
{
    zval exception, value;
    object_init_ex(&exception, shim_task_exception);
    set_text(Z_OBJ(exception), zend_ce_exception, "message", message);
    set_text(Z_OBJ(exception), shim_task_exception, "taskClass", class_name);
    set_text(Z_OBJ(exception), shim_task_exception, "taskTrace", trace);
    ZVAL_LONG(&value, code);
    zend_update_property_ex(zend_ce_exception, Z_OBJ(exception), ZSTR_KNOWN(ZEND_STR_CODE), &value);
    if (previous != NULL) {
        ZVAL_OBJ(&value, previous);
        zend_update_property_ex(zend_ce_exception, Z_OBJ(exception), ZSTR_KNOWN(ZEND_STR_PREVIOUS), &value);
        zval_ptr_dtor(&value);
    }
    zend_throw_exception_object(&exception);
}

void shim_aggregate_exception_throw(zend_array *errors)
{
    zval exception, value;
    static const char message[] = "All tasks have failed";
    object_init_ex(&exception, shim_aggregate_exception);
    set_text(Z_OBJ(exception), zend_ce_exception, "message", (shim_view){.bytes = message, .length = sizeof(message) - 1});
    ZVAL_ARR(&value, errors);
    zend_update_property(shim_aggregate_exception, Z_OBJ(exception), "errors", sizeof("errors") - 1, &value);
    zval_ptr_dtor(&value);
    zend_throw_exception_object(&exception);
}

HashTable *shim_trace_without_arguments(HashTable *trace)
{
    HashTable *bare = zend_new_array(zend_hash_num_elements(trace));
    zval *frame, copy;
    ZEND_HASH_FOREACH_VAL(trace, frame) {
        ZVAL_DEREF(frame);
        if (Z_TYPE_P(frame) == IS_ARRAY && zend_hash_find_known_hash(Z_ARRVAL_P(frame), ZSTR_KNOWN(ZEND_STR_ARGS)) != NULL) {
            ZVAL_ARR(&copy, zend_array_dup(Z_ARRVAL_P(frame)));
            zend_hash_del(Z_ARRVAL(copy), ZSTR_KNOWN(ZEND_STR_ARGS));
        } else {
            ZVAL_COPY(&copy, frame);
        }
        zend_hash_next_index_insert(bare, &copy);
    } ZEND_HASH_FOREACH_END();
    return bare;
}

HashTable *shim_exception_without_arguments(HashTable *properties)
{
    HashTable *bare = zend_new_array(zend_hash_num_elements(properties));
    zend_string *key;
    zval *value, copy;
    ZEND_HASH_FOREACH_STR_KEY_VAL_IND(properties, key, value) {
        const bool is_trace = key != NULL && Z_TYPE_P(value) == IS_ARRAY &&
                              (zend_string_equals_literal(key, "\0Exception\0trace") ||
                               zend_string_equals_literal(key, "\0Error\0trace"));
        if (is_trace) {
            ZVAL_ARR(&copy, shim_trace_without_arguments(Z_ARRVAL_P(value)));
        } else {
            ZVAL_COPY(&copy, value);
        }
        if (key != NULL) {
            zend_hash_add_new(bare, key, &copy);
        } else {
            zend_hash_next_index_insert(bare, &copy);
        }
    } ZEND_HASH_FOREACH_END();
    return bare;
}

/* ---- the classes ---- */

static void return_property(zval *object, zend_class_entry *scope, const char *name, zval *result)
{
    zval held;
    zval *value = zend_read_property(scope, Z_OBJ_P(object), name, strlen(name), false, &held);
    ZVAL_COPY_DEREF(result, value);
}

ZEND_METHOD(Svc_Async_TaskException, getTaskClass)
{
    ZEND_PARSE_PARAMETERS_NONE();
    return_property(ZEND_THIS, shim_task_exception, "taskClass", return_value);
}

ZEND_METHOD(Svc_Async_TaskException, getTaskTrace)
{
    ZEND_PARSE_PARAMETERS_NONE();
    return_property(ZEND_THIS, shim_task_exception, "taskTrace", return_value);
}

ZEND_METHOD(Svc_Async_AggregateException, getErrors)
{
    ZEND_PARSE_PARAMETERS_NONE();
    return_property(ZEND_THIS, shim_aggregate_exception, "errors", return_value);
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_text, 0, 0, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_errors, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry task_methods[] = {
    ZEND_ME(Svc_Async_TaskException, getTaskClass, arginfo_text, ZEND_ACC_PUBLIC)
    ZEND_ME(Svc_Async_TaskException, getTaskTrace, arginfo_text, ZEND_ACC_PUBLIC)
    ZEND_FE_END
};

static const zend_function_entry aggregate_methods[] = {
    ZEND_ME(Svc_Async_AggregateException, getErrors, arginfo_errors, ZEND_ACC_PUBLIC)
    ZEND_FE_END
};

static zend_class_entry *define(const char *name, const zend_function_entry *methods, zend_class_entry *parent)
{
    zend_class_entry entry;
    INIT_CLASS_ENTRY_EX(entry, name, strlen(name), methods);
    return zend_register_internal_class_ex(&entry, parent);
}

static void add_property(zend_class_entry *class, const char *name, zval *value, uint32_t type)
{
    zend_string *key = zend_string_init_interned(name, strlen(name), true);
    zend_declare_typed_property(class, key, value, ZEND_ACC_PRIVATE, NULL, (zend_type)ZEND_TYPE_INIT_MASK(type));
    zend_string_release(key);
}

void shim_async_exceptions_register(void)
{
    zval value;
    shim_async_exception = define("Svc\\Async\\Exception", NULL, spl_ce_RuntimeException);
    shim_rejected_exception = define("Svc\\Async\\RejectedException", NULL, shim_async_exception);
    shim_transfer_exception = define("Svc\\Async\\TransferException", NULL, shim_async_exception);
    shim_task_exception = define("Svc\\Async\\TaskException", task_methods, shim_async_exception);
    shim_timeout_exception = define("Svc\\Async\\TimeoutException", NULL, shim_async_exception);
    shim_cancelled_exception = define("Svc\\Async\\CancelledException", NULL, shim_async_exception);
    shim_aggregate_exception = define("Svc\\Async\\AggregateException", aggregate_methods, shim_async_exception);
    ZVAL_EMPTY_STRING(&value);
    add_property(shim_task_exception, "taskClass", &value, MAY_BE_STRING);
    add_property(shim_task_exception, "taskTrace", &value, MAY_BE_STRING);
    ZVAL_EMPTY_ARRAY(&value);
    add_property(shim_aggregate_exception, "errors", &value, MAY_BE_ARRAY);
}

void shim_cancelled_throw(void)
{
    zend_throw_exception(shim_cancelled_exception, "The task has been cancelled", 0);
}
