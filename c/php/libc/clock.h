/* The monotonic clock, and the CPU time of the thread. */
#ifndef SVC_SHIM_CLOCK_H
#define SVC_SHIM_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t shim_read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Returns the time in nanoseconds. */
static inline int64_t shim_now(void)
{
    return shim_read_clock(CLOCK_MONOTONIC);
}

/* Returns the CPU time of the calling thread in nanoseconds. */
static inline int64_t shim_cpu_time(void)
{
    return shim_read_clock(CLOCK_THREAD_CPUTIME_ID);
}

#endif
