/* Waits for several descriptors. */
#ifndef SVC_SHIM_DESCRIPTOR_WAIT_H
#define SVC_SHIM_DESCRIPTOR_WAIT_H

#include "worker/hooks/hooked_wait.h"

#include <poll.h>
#include <stdint.h>

/* The reason why a wait ended without a result. */
typedef struct shim_descriptor_end {
    shim_waited waited;
    /* The closed descriptor, after SHIM_WAITED_CLOSED. */
    int closed;
} shim_descriptor_end;

/* A call that waits for descriptors. */
typedef struct shim_descriptor_call {
    const struct pollfd *list;
    nfds_t count;
    /* On the monotonic clock; 0 for none. */
    int64_t deadline;
    /* The caller uses the descriptors' files after the wait (shim_watch). */
    bool is_in_use;
    int (*look)(void *call);
    void *call;
} shim_descriptor_call;

/* Waits for the events of the list until `look` returns a result other than 0, and returns that result. At the deadline,
 * returns the result of a last `look`. Otherwise returns -1, and `end` gives the reason: a descriptor was closed, the
 * request is over, or the caller has to call libc. */
int shim_wait_for_descriptors(const shim_descriptor_call *call, shim_descriptor_end *end);
/* Returns the time `seconds` and `nanoseconds` from now, on the monotonic clock; never 0, which means no deadline. */
int64_t shim_deadline_in(int64_t seconds, int64_t nanoseconds);
/* Returns the nanoseconds until the deadline; 0 if it has passed. */
int64_t shim_time_left(int64_t deadline);
/* Shuts down both directions of the sockets in the list. Keeps errno. */
void shim_shut_down(const struct pollfd *list, nfds_t count);

#endif
