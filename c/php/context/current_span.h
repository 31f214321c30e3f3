/* The span of the script that runs on the current thread, as the host numbers it. */
#ifndef SVC_SHIM_CURRENT_SPAN_H
#define SVC_SHIM_CURRENT_SPAN_H

#include <stdint.h>

/* 0 if the script has begun no span. Each fiber has its own value (trace/span_fibers.c). */
extern __thread uint64_t shim_current_span;

#endif
