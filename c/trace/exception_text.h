/* The texts of exceptions and fatal errors: class, message, and position. */
#ifndef SVC_SHIM_EXCEPTION_TEXT_H
#define SVC_SHIM_EXCEPTION_TEXT_H

#include "compat.h"
#include "shim.h"

#include <zend_smart_str.h>

/* Returns the name of the class. That of an anonymous one continues behind a NUL with its position, which is left out. */
shim_view shim_exception_class(const zend_object *exception);
/* Returns the message, as a view of the exception's own string; empty if it is not a string. */
shim_view shim_exception_message(zend_object *exception);
/* Writes the position at which the exception was created, the trace in the form of getTraceAsString(), without the
 * arguments of calls, and the same for each previous exception. `text` is not allocated from the request's memory; free
 * it with shim_trace_text_free(). */
void shim_exception_trace(smart_str *text, zend_object *exception);
/* Writes the trace of the running code, below the position of the error. */
void shim_execution_trace(smart_str *text, shim_view file, uint32_t line);
shim_view shim_trace_text_view(const smart_str *text);
void shim_trace_text_free(smart_str *text);

#endif
