/* Svc\Trace\Span. */
#ifndef SVC_SHIM_SPAN_OBJECT_H
#define SVC_SHIM_SPAN_OBJECT_H

#include "compat.h"
#include "shim.h"

/* Returns the object of the span with this number; 0 stands for a span that is not recorded. */
void shim_span_object(zval *object, uint64_t span);
/* Records an exception as an event of the span. `attributes` are further ones from the script. */
void shim_span_record(uint64_t span, zend_object *exception, const shim_attribute *attributes, size_t count);
void shim_span_class_register(void);
/* Call when the thread stops. */
void shim_span_objects_stop(void);

#endif
