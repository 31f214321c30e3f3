/* The events that a request waits for: descriptors, a deadline, and completions, in one set. */
#ifndef SVC_SHIM_WAIT_SET_H
#define SVC_SHIM_WAIT_SET_H

#include "shim.h"

#include <stdbool.h>
#include <stdint.h>

/* Events of one descriptor. */
typedef struct shim_watch {
    /* A negative descriptor is never ready, as with poll(). */
    int descriptor;
    /* poll() events. */
    short events;
    /* Whether the waiting call continues to use the descriptor's object, which a script therefore must not close. */
    bool is_in_use;
    /* The waiting fiber, and the other watches of the same descriptor; NULL while there is no wait. Used by watches.c. */
    struct shim_fiber *fiber;
    struct shim_watch *next;
    struct shim_watch *previous;
} shim_watch;

/* The purpose of a wait, as far as it matters to requests that wait for the waiting one (worker/connections/owners/turns.h). */
typedef enum shim_wait_purpose {
    /* An event outside of the thread: a server, a program, a file. */
    SHIM_WAITS_FOR_OTHERS = 0,
    /* A deadline; the script pauses. */
    SHIM_WAITS_FOR_TIME,
    /* Its own client. */
    SHIM_WAITS_FOR_CLIENT,
    /* A session whose handler polls for its lock. */
    SHIM_WAITS_FOR_SESSION,
    /* Tasks. */
    SHIM_WAITS_FOR_TASKS,
    /* Other requests of its thread. */
    SHIM_WAITS_FOR_TURN,
} shim_wait_purpose;

/* Any member ends the wait; other members that are ready at that moment are still ready for the next wait. The set and
 * its arrays belong to the caller of shim_park(), which may keep them on its stack: they are used until shim_park()
 * returns. The same descriptor may occur more than once in a set, and in the sets of several requests; a completion is
 * in one set at a time. */
typedef struct shim_wait_set {
    shim_watch *watches;
    unsigned watch_count;
    shim_completion *const *completions;
    unsigned completion_count;
    /* On the monotonic clock, in nanoseconds; 0 if there is none. */
    int64_t deadline;
    /* Whether the wait may outlast the request's time limit. */
    bool is_unlimited;
    /* Whether the request also waits for its turn, which another request of the thread announces by shim_wake()
     * (worker/connections/owners/turns.c). */
    bool awaits_turn;
    shim_wait_purpose purpose;
} shim_wait_set;

/* The event that ended a wait. */
typedef enum shim_woken_by {
    /* No event: the request could not wait without blocking its thread, or no event would have ended the wait. The
     * caller has to block. */
    SHIM_NEVER_PARKED = 0,
    SHIM_WOKEN_BY_DESCRIPTOR,
    SHIM_WOKEN_BY_TIME,
    /* A descriptor has been closed. */
    SHIM_WOKEN_BY_CLOSE,
    SHIM_WOKEN_BY_COMPLETION,
    /* The request is a task and has been cancelled; its later waits end at once. */
    SHIM_WOKEN_BY_CANCEL,
    /* Its turn has come. */
    SHIM_WOKEN_BY_TURN,
} shim_woken_by;

typedef struct shim_woken {
    shim_woken_by by;
    /* The index of the watch or of the completion. */
    unsigned member;
    /* Whether there was no wait because the watch is of a file that epoll does not support, and that is always ready. */
    bool is_file;
} shim_woken;

#endif
