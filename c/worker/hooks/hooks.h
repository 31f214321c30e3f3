/* Calls of libc that wait, and which of them may suspend their request. */
#ifndef SVC_WORKER_HOOKS_H
#define SVC_WORKER_HOOKS_H

#include "shim.h"
#include "worker/stack/stack.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- The libraries whose waits for sockets, pipes and names can suspend a request (callers.c) ---- */

/* Looks for such libraries that have been loaded since the last call. On any thread; called after each dlopen(). */
void shim_callers_scan(void);
/* Whether the code at this address belongs to such a library. On any thread; takes no lock. */
bool shim_caller_is_known(const void *address);

/* ---- Waits of hooked calls (hooked_wait.c) ---- */

/* The caller's next step after a wait. */
typedef enum shim_waited {
    /* The wait ended, possibly for another reason: the caller checks, and waits again if necessary. */
    SHIM_WAITED_CHECK = 0,
    /* A descriptor of the set was closed. Its number may belong to another file by now. */
    SHIM_WAITED_CLOSED,
    SHIM_WAITED_EXPIRED,
    /* The request may no longer wait: its time limit has expired, or it is a cancelled task. The call fails with an error
     * after which its library does not retry. */
    SHIM_WAITED_OVER,
    /* The request cannot wait without blocking its thread, which has been counted; the caller calls libc. */
    SHIM_WAITED_BLOCK,
} shim_waited;

/* For callers whose preparations are expensive: returns SHIM_WAITED_CHECK if the request may wait, otherwise what
 * shim_hooked_wait would return, and counts it. */
shim_waited shim_hooked_may_wait(shim_hook hook);
/* Waits in the fiber. Keeps errno. */
shim_waited shim_hooked_wait(shim_hook hook, const shim_wait_set *set);
/* Waits for poll() events of one descriptor; a deadline of 0 means none. */
shim_waited shim_hooked_wait_for(shim_hook hook, int descriptor, short events, int64_t deadline);
/* Pauses before the next attempt at an operation whose completion no event reports. `pause` starts at 0; each pause is
 * longer than the previous one, up to a limit. Keeps errno. */
shim_waited shim_hooked_pause(shim_hook hook, int64_t *pause);
/* Whether the library keeps retrying after its request ended. The caller then shuts its sockets down, or the library would
 * retry endlessly. */
bool shim_hooked_keeps_retrying(void);
/* Whether it retries even after that: it waits for something other than its sockets (a pause, its own rate limit), or keeps
 * finding a socket that is not ready. Only a call that fails as a whole stops it. */
bool shim_hooked_never_gives_up(void);
/* Called when the caller's condition holds without a wait. Returns false if the library never gives up
 * (shim_hooked_never_gives_up()): the call then fails. */
bool shim_hooked_may_find(void);

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
/* Returns the nanoseconds until the deadline; 0 if it has passed. */
int64_t shim_time_left(int64_t deadline);
/* Shuts down both directions of the sockets in the list. Keeps errno. */
void shim_shut_down(const struct pollfd *list, nfds_t count);

/* Whether calls with this descriptor block: it is open, and not O_NONBLOCK. */
bool shim_is_blocking(int descriptor);
/* Sets close-on-exec, so that programs which other requests start meanwhile do not inherit the descriptor. Keeps errno. */
void shim_close_at_exec(int descriptor);
/* Returns the deadline of a wait that begins now, from SO_RCVTIMEO or SO_SNDTIMEO; 0 if there is none. */
int64_t shim_socket_deadline(int descriptor, int option);
/* Waits for poll() events of a socket that is not ready. Returns true if the caller tries again. Otherwise `waited` is
 * SHIM_WAITED_BLOCK if the caller has to call libc, or errno is set: EAGAIN at the deadline, EBADF if the socket was
 * closed, ECONNRESET if the request is over. */
bool shim_wait_for_socket(int descriptor, short events, int64_t deadline, shim_waited *waited);
/* The same where no event reports that the next attempt may succeed: pauses. `pause` starts at 0; each pause is longer than
 * the previous one. */
bool shim_pause_at_socket(int descriptor, int64_t deadline, int64_t *pause, shim_waited *waited);

/* ---- A libc call that a helper thread makes while the request waits for its result (helper_call.c) ---- */

/* The first member of a struct that holds copies of all arguments and, later, the results. The request and the helper
 * thread each own a reference; the last release discards the struct. During the wait, only the helper accesses it. */
typedef struct shim_helper_call {
    /* Makes the call on the helper thread, which shares only errno and h_errno with the request. */
    void (*make)(struct shim_helper_call *call);
    /* Frees any results that the request has not taken; NULL if there are none. On either thread. */
    void (*discard)(struct shim_helper_call *call);
    /* errno and h_errno: the caller's before the call, the call's after it. */
    int error;
    int host_error;
    shim_completer *completer;
    uint32_t owners;
    bool is_made;
} shim_helper_call;

/* Allocates a call of `size` bytes. Returns NULL if out of memory, which it counts: the caller calls libc. */
void *shim_helper_call_new(size_t size, void (*make)(shim_helper_call *), void (*discard)(shim_helper_call *));
/* Runs the call on a helper thread and waits for it. After SHIM_WAITED_CHECK, errno and h_errno are those of the call;
 * the caller takes the results and calls shim_helper_call_release. Any other result means that the call has been
 * released: SHIM_WAITED_OVER if the request may no longer wait, SHIM_WAITED_BLOCK if the caller has to call libc. */
shim_waited shim_helper_call_wait(shim_helper_call *call);
void shim_helper_call_release(shim_helper_call *call);

/* ---- Calls that wait, and which of them may suspend their request (hooks.c) ---- */

/* Sets which hooks are in effect, one bit each. Called before any thread runs PHP. */
void shim_hooks_install(uint32_t hooks);
/* Whether a call suspends its request while it waits: the hook is in effect, and a request with a fiber is running. For
 * PHP's functions. */
bool shim_hook_is_on(shim_hook hook);
/* Whether the hook is in effect and `caller` belongs to a known library (worker/hooks/callers.c), with or without a fiber. */
bool shim_hook_is_in_effect_for(shim_hook hook, const void *caller);
/* Whether a replacement of a libc function suspends its request: shim_hook_is_on, and `caller` is in a known library. Threads
 * without a fiber, which most often call these functions, only compare a pointer. */
static inline bool shim_hook_is_on_for(shim_hook hook, const void *caller)
{
    return shim_running != NULL && shim_hook_is_on(hook) && shim_caller_is_known(caller);
}
/* Counts a call that blocks its thread. */
void shim_hook_blocks(shim_hook hook, shim_obstacle obstacle);

/* ---- sleep(), usleep(), time_nanosleep() and time_sleep_until() (sleeps.c) ---- */

void shim_sleeps_install(void);

/* ---- recv() and send() for hooks of other calls (sockets.c) ---- */

/* The caller has checked that the hook applies; `length` is not 0. */
ssize_t shim_receive(int descriptor, void *buffer, size_t length);
ssize_t shim_send(int descriptor, const void *buffer, size_t length);

#endif
