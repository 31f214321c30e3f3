/* The header fields of W3C Trace Context; see trace_fields.h. */
#include "php/context/context.h"
#include "php/context/current_span.h"
#include "php/context/host.h"
#include "trace/apm/trace_fields.h"

#include <string.h>
#include <strings.h>

shim_trace_fields shim_trace_fields_of(uint64_t span)
{
    shim_trace_fields fields = {0};
    shim_host.span.traceparent(shim_current->host, span != 0 ? span : shim_current_span, &fields.parent);
    shim_host.span.tracestate(shim_current->host, &fields.state);
    return fields;
}

/* Whether a line sets a field: a colon or a semicolon follows the name. White space in front of it counts too: libcurl
 * and PHP decide what it means. */
static bool sets(const char *line, size_t length, const char *name)
{
    const size_t name_length = strlen(name);
    while (length > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        length--;
    }
    return length > name_length && strncasecmp(line, name, name_length) == 0 && memchr(":; \t", line[name_length], 4) != NULL;
}

bool shim_is_traceparent(const char *line, size_t length)
{
    return sets(line, length, SHIM_TRACEPARENT);
}

bool shim_is_tracestate(const char *line, size_t length)
{
    return sets(line, length, SHIM_TRACESTATE);
}
