/* What a request waits for: descriptors, a moment, and completions, in one set. */
#ifndef SVC_SHIM_WAIT_SET_H
#define SVC_SHIM_WAIT_SET_H

#include "shim.h"

#include <stdbool.h>
#include <stdint.h>

/* Events of one descriptor. */
typedef struct shim_watch {
    /* A negative one is never ready, as with poll(). */
    int descriptor;
    /* Of poll(). */
    short events;
    /* The fiber that waits, and the other watches of the descriptor; NULL: it does not wait. For watches.c. */
    struct shim_fiber *fiber;
    struct shim_watch *next;
    struct shim_watch *previous;
} shim_watch;

/* Any one of its members ends the wait, and whatever else is ready then is still ready for the next wait. The set and its
 * arrays belong to the caller of shim_park(), on whose stack they may be: they are used until it returns. The same
 * descriptor may be in a set more than once, and in the sets of several requests; a completion is in one set at a time. */
typedef struct shim_wait_set {
    shim_watch *watches;
    unsigned watch_count;
    shim_completion *const *completions;
    unsigned completion_count;
    /* On the monotonic clock, in nanoseconds; 0: none. */
    int64_t deadline;
    /* The time limit of the request does not end the wait. */
    bool is_unlimited;
} shim_wait_set;

/* What has ended a wait. */
typedef enum shim_woken_by {
    /* Nothing: the request could not wait without its thread, or nothing would have ended the wait. The caller blocks. */
    SHIM_NEVER_PARKED = 0,
    SHIM_WOKEN_BY_DESCRIPTOR,
    SHIM_WOKEN_BY_TIME,
    /* A descriptor is closed. */
    SHIM_WOKEN_BY_CLOSE,
    SHIM_WOKEN_BY_COMPLETION,
} shim_woken_by;

typedef struct shim_woken {
    shim_woken_by by;
    /* Which one of the watches, or of the completions. */
    unsigned member;
} shim_woken;

#endif
