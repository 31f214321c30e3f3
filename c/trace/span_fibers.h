/* The current span of each fiber. */
#ifndef SVC_SHIM_SPAN_FIBERS_H
#define SVC_SHIM_SPAN_FIBERS_H

#include <stdbool.h>

/* Call after PHP has started. Returns false if PHP has no free resource handle. */
bool shim_span_fibers_follow(void);
/* Returns the number of svc's slot among those that the engine reserves for extensions; functions have the same. */
int shim_trace_place(void);

#endif
