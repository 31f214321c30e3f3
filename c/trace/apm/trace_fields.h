/* The header fields of W3C Trace Context. */
#ifndef SVC_SHIM_TRACE_FIELDS_H
#define SVC_SHIM_TRACE_FIELDS_H

#include "shim.h"

#include <stdbool.h>
#include <stddef.h>

#define SHIM_TRACEPARENT "traceparent"
#define SHIM_TRACESTATE "tracestate"

/* Their values. Both are empty without a trace; `state` may be empty. */
typedef struct shim_trace_fields {
    shim_view parent;
    shim_view state;
} shim_trace_fields;

/* Returns the fields for a call that is recorded as `span`, or is not recorded if that is 0. Call in a request; the
 * views are valid until its next call of the host. */
shim_trace_fields shim_trace_fields_of(uint64_t span);
/* Whether a header line sets or removes the field. */
bool shim_is_traceparent(const char *line, size_t length);
bool shim_is_tracestate(const char *line, size_t length);

#endif
