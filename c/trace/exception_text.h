/* What there is to say about an exception or a fatal error: class, message, and where. */
#ifndef SVC_SHIM_EXCEPTION_TEXT_H
#define SVC_SHIM_EXCEPTION_TEXT_H

#include "compat.h"
#include "shim.h"

#include <zend_smart_str.h>

/* The name of the class. That of an anonymous one goes on behind a NUL, with where it is, which is left out. */
shim_view shim_exception_class(const zend_object *exception);
/* The message; empty if it is no text. A view of the exception's own. */
shim_view shim_exception_message(zend_object *exception);
/* Where it was made, the trace as getTraceAsString() has it, without the arguments of calls, and the same of each exception
 * before it; `text` is not the request's memory, and freed with shim_trace_text_free(). */
void shim_exception_trace(smart_str *text, zend_object *exception);
/* The trace of what is being executed, below the place of the error. */
void shim_execution_trace(smart_str *text, shim_view file, uint32_t line);
shim_view shim_trace_text_view(const smart_str *text);
void shim_trace_text_free(smart_str *text);

#endif
