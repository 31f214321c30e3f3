/* The header fields that pass a trace on (W3C Trace Context). */
#ifndef SVC_SHIM_TRACE_FIELDS_H
#define SVC_SHIM_TRACE_FIELDS_H

#include "shim.h"

#include <stdbool.h>
#include <stddef.h>

#define SHIM_TRACEPARENT "traceparent"
#define SHIM_TRACESTATE "tracestate"

/* Their values; both are empty without a trace, and the state is if the trace has none. */
typedef struct shim_trace_fields {
    shim_view parent;
    shim_view state;
} shim_trace_fields;

/* What a call passes on that is recorded as `span`, or as none if that is 0. In a request; until its next call of the host. */
shim_trace_fields shim_trace_fields_of(uint64_t span);
/* Whether a line of a header sets the field, or takes it away. */
bool shim_is_traceparent(const char *line, size_t length);
bool shim_is_tracestate(const char *line, size_t length);

#endif
