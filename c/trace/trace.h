/* Svc\Trace, and what ends a script as an event of its span. */
#ifndef SVC_TRACE_H
#define SVC_TRACE_H

#include "compat.h"
#include "php/context/context.h"
#include "shim.h"

#include <zend_smart_str.h>

/* ---- Attributes of spans (attributes.c) ---- */

/* Attributes for one call of the host; their texts belong to the PHP values. */
typedef struct shim_attributes {
    shim_attribute *list;
    size_t count;
} shim_attributes;

/* Takes the value of an attribute, an argument of the running function. Returns false and throws a TypeError if it is
 * neither a scalar nor a list of scalars of one type. */
bool shim_attribute_take(shim_attributes *attributes, zend_string *name, zval *value, uint32_t argument);
/* Takes an argument with any number of attributes, by name; NULL stands for none. */
bool shim_attributes_take(shim_attributes *attributes, HashTable *values, uint32_t argument);
void shim_attributes_free(shim_attributes *attributes);

/* ---- The texts of exceptions and fatal errors (exception_text.c) ---- */

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

/* ---- What ends a script, for its span and for the host (failures.c) ---- */

/* Call before a fatal error is reported. That of an exception is recorded if only its text is known. */
void shim_failure_note(const shim_log *error, bool is_of_exception);
/* Reports uncaught exceptions from now on: those of recorded requests, or of all. */
void shim_failures_install(bool reports_all);

/* ---- The functions of the namespace Svc\Trace (functions.c) ---- */

extern const shim_request_hooks shim_trace_request_hooks;

/* ---- Svc\Trace\Span (span_object.c) ---- */

/* Returns the object of the span with this number; 0 stands for a span that is not recorded. */
void shim_span_object(zval *object, uint64_t span);
/* Records an exception as an event of the span. `attributes` are further ones from the script. */
void shim_span_record(uint64_t span, zend_object *exception, const shim_attribute *attributes, size_t count);
void shim_span_class_register(void);
/* Call when the thread stops. */
void shim_span_objects_stop(void);

/* Call after PHP has started. Returns false if PHP has no free resource handle. */
bool shim_span_fibers_follow(void);
/* Returns the number of svc's slot among those that the engine reserves for extensions; functions have the same. */
int shim_trace_slot(void);

#endif
