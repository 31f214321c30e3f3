/* The monotonic clock. */
#ifndef SVC_SHIM_CLOCK_H
#define SVC_SHIM_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Returns the time in nanoseconds. */
static inline int64_t shim_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
