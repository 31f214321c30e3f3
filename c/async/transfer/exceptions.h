/* The exceptions of tasks: Svc\Async\Exception and its subclasses. */
#ifndef SVC_SHIM_EXCEPTIONS_H
#define SVC_SHIM_EXCEPTIONS_H

#include "compat.h"
#include "shim.h"

extern zend_class_entry *shim_async_exception, *shim_rejected_exception, *shim_transfer_exception,
    *shim_task_exception, *shim_timeout_exception, *shim_cancelled_exception, *shim_aggregate_exception;

void shim_async_exceptions_register(void);

/* Throws a TransferException. An exception that is already thrown becomes its previous; exit() and the end of a fiber
 * take precedence, and nothing changes. */
void shim_transfer_throw(const char *message);
/* Throws a TaskException. `previous` may be NULL; takes over its reference. */
void shim_task_exception_throw(shim_view message, zend_long code, shim_view class_name, shim_view trace, zend_object *previous);
/* Throws a CancelledException in the running task. */
void shim_cancelled_throw(void);
/* Throws an AggregateException. `errors` is an array, key => Throwable; takes over its reference. */
void shim_aggregate_exception_throw(zend_array *errors);
/* Returns a copy of an exception's trace without the arguments of calls. */
HashTable *shim_trace_without_arguments(HashTable *trace);
/* Returns a copy of an exception's properties whose trace has no arguments. */
HashTable *shim_exception_without_arguments(HashTable *properties);

#endif
