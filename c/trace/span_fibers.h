/* Which span each fiber is in. */
#ifndef SVC_SHIM_SPAN_FIBERS_H
#define SVC_SHIM_SPAN_FIBERS_H

#include <stdbool.h>

/* After PHP has started. Returns false if PHP has no resource handle left. */
bool shim_span_fibers_follow(void);
/* The number of svc's room in what the engine reserves for extensions; functions have the same. */
int shim_trace_place(void);

#endif
