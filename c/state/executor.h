/* The engine's members that are a request's. The other members are the thread's or the fiber's. */
#ifndef SVC_SHIM_EXECUTOR_H
#define SVC_SHIM_EXECUTOR_H

#include "compat.h"

typedef struct shim_executor_state {
    int error_reporting;
    int exit_status;
    int ticks_count;
    int user_error_handler_error_reporting;
    zval user_error_handler;
    zval user_exception_handler;
    zend_stack user_error_handlers_error_reporting;
    zend_stack user_error_handlers;
    zend_stack user_exception_handlers;
    zend_class_entry *exception_class;
    zend_error_handling_t error_handling;
    bool variable_width_locale;
    bool ascii_compatible_locale;
    zval fatal_backtrace;
    /* The classes that its autoloaders are asked for. */
    HashTable *in_autoload;
    /* What is in flight: a callback may have thrown before the engine waits for something. */
    zend_object *exception;
    zend_object *prev_exception;
    const zend_op *opline_before_exception;
    shim_scope *fake_scope;
    zend_string *filename_override;
    zend_long lineno_override;
    /* Somebody has swallowed a jump of the request's. */
    bool unclean_shutdown;
} shim_executor_state;

void shim_executor_capture(void);
void shim_executor_begin(void);
void shim_executor_suspend(shim_executor_state *state);
void shim_executor_resume(const shim_executor_state *state);
void shim_executor_end(void);
/* Puts the baseline snapshot in place, whatever is there. */
void shim_executor_reset(void);
/* The same of handlers. */
bool shim_executor_holds(void);
void shim_executor_drop(void);
/* A fatal error is about to be told. PHP 8.5 keeps where it happened for error_get_last(), every frame of it and without
 * a limit: that of endless recursion takes several times the memory that the limit allows. The innermost frames stay. */
void shim_executor_shorten_backtrace(void);

#endif
