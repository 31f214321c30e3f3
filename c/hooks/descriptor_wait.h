/* Calls that wait for several descriptors. */
#ifndef SVC_SHIM_DESCRIPTOR_WAIT_H
#define SVC_SHIM_DESCRIPTOR_WAIT_H

#include "hooks/hooked_wait.h"

#include <poll.h>
#include <stdint.h>

/* Why a wait has ended without a result. */
typedef struct shim_descriptor_end {
    shim_waited waited;
    /* The descriptor that has been closed. */
    int closed;
} shim_descriptor_end;

/* A call that waits. */
typedef struct shim_descriptor_call {
    const struct pollfd *list;
    nfds_t count;
    /* 0 if there is none. */
    int64_t deadline;
    /* The caller goes on with what the descriptors belong to (shim_watch). */
    bool is_in_use;
    int (*look)(void *call);
    void *call;
} shim_descriptor_call;

/* Waits until `look` returns anything but 0, and returns that; the list says which events are waited for. 0 if the
 * deadline has passed. Otherwise it returns -1, and `end` says why: a descriptor has been closed, the request is over, or
 * the caller has to call libc. */
int shim_wait_for_descriptors(const shim_descriptor_call *call, shim_descriptor_end *end);
/* The moment `seconds` and `nanoseconds` from now, on the monotonic clock; never 0, which means none. */
int64_t shim_deadline_in(int64_t seconds, int64_t nanoseconds);
/* How much is left until then, in nanoseconds; 0 if it has passed. */
int64_t shim_time_left(int64_t deadline);
/* Closes both directions of the sockets among them. */
void shim_shut_down(const struct pollfd *list, nfds_t count);

#endif
