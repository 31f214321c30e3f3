/* The engine's members that belong to a request. The others belong to the thread or the fiber. */
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
    /* The classes that the request's autoloaders are loading. */
    HashTable *in_autoload;
    /* A pending exception: a callback may have thrown before the engine waits for something. */
    zend_object *exception;
    zend_object *prev_exception;
    const zend_op *opline_before_exception;
    shim_scope *fake_scope;
    zend_string *filename_override;
    zend_long lineno_override;
    /* Whether an extension or the engine has caught a bailout of the request. */
    bool unclean_shutdown;
} shim_executor_state;

void shim_executor_capture(void);
void shim_executor_begin(void);
void shim_executor_suspend(shim_executor_state *state);
void shim_executor_resume(const shim_executor_state *state);
void shim_executor_end(void);
/* Puts the baseline snapshot in place, whatever the current state. */
void shim_executor_reset(void);
/* Whether handlers remain that may hold objects with destructors, and the function that frees them; see globals.h. */
bool shim_executor_holds(void);
void shim_executor_drop(void);
/* Call before a fatal error is reported. PHP 8.5 records its backtrace for error_get_last(), with every frame and
 * without a limit: for an endless recursion, that takes several times the memory limit. Keeps only the innermost
 * frames. */
void shim_executor_shorten_backtrace(void);

#endif
