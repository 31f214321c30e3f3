/* The exceptions of tasks: Svc\Async\Exception and those below it. */
#ifndef SVC_SHIM_EXCEPTIONS_H
#define SVC_SHIM_EXCEPTIONS_H

#include "compat.h"
#include "shim.h"

extern zend_class_entry *shim_async_exception, *shim_rejected_exception, *shim_transfer_exception,
    *shim_task_exception, *shim_timeout_exception, *shim_cancelled_exception, *shim_aggregate_exception;

void shim_async_exceptions_register(void);

/* Throws a TransferException. An exception that is already thrown becomes its previous; exit() and the end of a fiber
 * take precedence: then nothing changes. */
void shim_transfer_throw(const char *message);
/* Throws a TaskException. `previous` may be NULL; its reference becomes the exception's. */
void shim_task_exception_throw(shim_view message, zend_long code, shim_view class_name, shim_view trace, zend_object *previous);
/* Throws a CancelledException in the task that runs. */
void shim_cancelled_throw(void);
/* Throws an AggregateException. `errors` is an array, key => Throwable; its reference becomes the exception's. */
void shim_aggregate_exception_throw(zend_array *errors);
/* A copy of an exception's trace in which calls have no arguments. */
HashTable *shim_trace_without_arguments(HashTable *trace);
/* The same of an exception's properties. */
HashTable *shim_exception_without_arguments(HashTable *properties);

#endif
