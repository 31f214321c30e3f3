/* The stacks of requests, and their waits. */
#ifndef SVC_WORKER_STACK_H
#define SVC_WORKER_STACK_H

#include "compat.h"
#include "php/context/context.h"
#include "shim.h"
#include "worker/state/state.h"

#include <sys/epoll.h>
#include <sys/queue.h>

/* ---- The engine's marks in objects for the calls that a stack is inside of (guards.c) ---- */

/* The guards of the magic methods that a stack is inside of, while the stack is not running. */
typedef struct shim_guards {
    struct shim_held_bits *list;
    size_t count;
    size_t room;
} shim_guards;

/* Lifts the guards that the running stack has set, from its innermost frame out to `bottom`. Returns false if there is
 * no memory for them or there are too many frames; then all guards are in place. */
bool shim_guards_lift(shim_guards *guards, const zend_execute_data *bottom);
void shim_guards_restore(shim_guards *guards);
void shim_guards_free(shim_guards *guards);
/* Whether values carry marks that another stack would mistake for its own: left by a function further out on the
 * running stack, or by a suspended fiber of a script. */
bool shim_values_are_marked(const zend_execute_data *bottom);
/* Makes suspended fibers of scripts take their guards along. Call after PHP has started. */
void shim_guards_follow_fibers(void);

/* ---- The events that a request waits for ---- */

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

/* The purpose of a wait, as far as it matters to requests that wait for the waiting one
 * (worker/connections/owners/wait_queue.c). */
typedef enum shim_wait_purpose {
    /* An event outside of the thread: a server, a program, a file. */
    SHIM_WAITS_FOR_OTHERS = 0,
    /* A deadline; the script pauses. */
    SHIM_WAITS_FOR_TIME,
    /* Its own client. */
    SHIM_WAITS_FOR_CLIENT,
    /* A session whose handler polls for its lock. */
    SHIM_WAITS_FOR_SESSION,
    SHIM_WAITS_FOR_TASKS,
    /* Other requests of its thread. */
    SHIM_WAITS_TO_ACQUIRE,
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
    /* Whether the request also waits for its grant, which another request of the thread announces by shim_wake()
     * (worker/connections/owners/wait_queue.c). */
    bool awaits_grant;
    shim_wait_purpose purpose;
} shim_wait_set;

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
    /* Another request has granted it what it waits for. */
    SHIM_WOKEN_BY_REQUEST,
} shim_woken_by;

typedef struct shim_woken {
    shim_woken_by by;
    /* The index of the watch or of the completion. */
    unsigned member;
    /* Whether there was no wait because the watch is of a file that epoll does not support, and that is always ready. */
    bool is_file;
} shim_woken;

/* ---- Requests on their own stacks (fiber.c) ---- */

/* The state of a fiber. */
typedef enum shim_phase {
    /* Has no request; kept for the next one. */
    SHIM_PHASE_IDLE = 0,
    SHIM_PHASE_RUNNING,
    /* Waits in park.c. */
    SHIM_PHASE_PARKED,
    /* The event that it waited for has happened. */
    SHIM_PHASE_READY,
} shim_phase;

/* A request of worker mode, and the separate stack that runs one request after another.
 *
 * The stack belongs to the shim and is not a PHP object: scripts have Fiber objects only for fibers that they have
 * created; for them, a request runs outside of a fiber, as in php-fpm. */
typedef struct shim_fiber {
    shim_context context;
    shim_request_state state;
    shim_strings strings;
    /* Whether the request has a separate stack; it may run on that of the thread. */
    bool has_own_stack;
    /* Whether it may yield its thread: not before it has begun, and not once its last parts are freed. */
    bool may_wait;
    /* The function that the stack runs for each request, from its beginning to its end. */
    void (*serve)(struct shim_fiber *fiber);
    zend_fiber_context own_context;
    /* Its VM stack, and the root frame on it. */
    zend_vm_stack vm_stack;
    zend_execute_data *root_frame;
    /* The context of the loop, to which it switches, and the context to resume: the stack's, or that of a fiber that
     * the request has created. */
    zend_fiber_context *loop;
    zend_fiber_context *innermost;
    shim_phase phase;
    /* Whether it has ever owned or used a connection. */
    bool has_used_connection;
    /* Whether it has used a store (Redis, Memcached), and whether its last used connection is to a store. */
    bool has_used_store;
    bool is_at_store;
    /* It is opening a persistent connection: PHP may be asking the server whether one is alive, and another request that
     * opened the same one meanwhile would replace it. Or it is resetting its connections at its end. */
    bool lends_nothing;
    /* Whether it has selected another database of a store (worker/connections/redis_memcached.c). */
    bool has_selected;
    /* Its wait for another request; NULL while it does not wait for one (worker/connections/owners/wait_queue.c). */
    struct shim_blocked *blocked;
    /* The next fiber that is idle or ready. */
    struct shim_fiber *next;
    /* Among the fibers that have a request (request_stack.c). */
    LIST_ENTRY(shim_fiber) busy;
    /* The set that a parked fiber waits for, and the function that takes the wait down (park.c). */
    const shim_wait_set *wait_set;
    void (*stop_waiting)(struct shim_fiber *fiber);
    /* The guards of the magic methods that it waits in. */
    shim_guards guards;
    /* The deadline of the set, or the time limit of the request if that is earlier; 0 if there is none. */
    int64_t deadline;
    /* Its index in the timer heap plus one; 0 if it is not in the heap. */
    uint32_t timer_place;
    /* Its number among the waiters for completions plus one; 0 if it has none. */
    uint32_t waiter;
    /* Among the parked tasks of its thread (park.c). */
    LIST_ENTRY(shim_fiber) parked;
    /* The event that ended the last wait. */
    shim_woken woken;
    /* The object of Svc\per_request() whose instance ended last (worker/request/ending.c). */
    zend_object *ending_proxy;
    /* The number of consecutive calls that were refused because the request no longer waits (worker/hooks/hooked_wait.c). */
    unsigned refusals;
} shim_fiber;

extern __thread shim_fiber *shim_running;
/* Returns the serial number of the running request; 0 if there is none. */
uint64_t shim_running_serial(void);
/* Called before a request that has owned a connection is suspended. */
extern void (*shim_fiber_parks)(const shim_fiber *fiber);
/* Called when a request can no longer run although it has not ended. */
extern void (*shim_fiber_is_lost)(const shim_fiber *fiber);

/* The request is completely freed: returns it to its host. */
void shim_fiber_release(shim_fiber *fiber);

/* Ends the wait of a parked request, whatever else it was waiting for. */
void shim_wake(shim_fiber *fiber, shim_woken_by by, unsigned member);
/* Removes and returns the request that has been ready for the longest time; NULL if there is none. */
shim_fiber *shim_ready_pop(void);
size_t shim_ready_count(void);

/* ---- Requests on their own stacks (request_stack.c) ---- */

/* Runs `serve` on the request's own stack until it waits or ends. If there is no memory for the stack, the request ends
 * at once. */
shim_progress shim_fiber_start(shim_context context, void (*serve)(shim_fiber *fiber));
/* Switches to the loop until the fiber is resumed. */
void shim_fiber_switch_out(shim_fiber *fiber);
/* Returns the reason why the running request cannot wait without blocking its thread; SHIM_NO_OBSTACLE if it can. */
shim_obstacle shim_fiber_obstacle(void);
bool shim_fiber_may_park(void);
/* The loop has failed and resumes no more requests: returns unfinished requests to the host, and then calls `lose` for
 * each. */
void shim_fibers_lose(void (*lose)(shim_fiber *fiber));
/* The worker serves no more requests: frees the idle request stacks. */
void shim_fibers_forget(void);

/* ---- Suspended fibers of a request that ends (left_fibers.c) ---- */

/* Fibers of scripts that are suspended when their request ends.
 *
 * PHP destroys all fibers at the end of a request. In worker mode, a fiber may be kept and resumed in a later request,
 * as an event loop does. That is sound only if its stack holds nothing but script code. If a function of PHP or the
 * engine has called the script (a callback of mb_ereg_replace_callback(), SessionHandler, __toString(), an autoloader,
 * an error handler), it continues together with the fiber, and uses the state of its former request: an expression, a
 * session, a parser, a connection. Such a fiber is destroyed with the request that has left it.
 *
 * A fiber belongs to the request that was running when the fiber was suspended, even if another request has started it.
 * Calls between functions of scripts, generators and included files count as script code, and so do a few functions of
 * PHP that only make a call and keep their state in their own frame. */

/* Returns a fiber that the request with this serial number has left inside a call of PHP or the engine; NULL if there
 * is none. */
zend_fiber *shim_left_fiber(uint64_t request);
/* Destroys the fiber as PHP does at the end of a request: its calls return, `finally` blocks run. */
void shim_left_fiber_end(zend_fiber *fiber);
/* Frees the stacks of all such fibers without unwinding them. */
void shim_left_fibers_drop(uint64_t request);
/* Call after PHP has started. */
void shim_left_fibers_install(void);

/* ---- The only place where a request waits without blocking its thread (park.c) ---- */

/* Waits until a member of the set ends the wait. The time limit of the request ends it too, and counts as a deadline.
 * Returns immediately, without running other requests, if a completion of the set is complete or if a descriptor cannot
 * be watched. */
shim_woken shim_park(const shim_wait_set *set);
/* Waits like shim_park() for a request that cannot park, and blocks the thread. Ends only by a completion, the deadline
 * or the time limit; the set has no descriptors. */
shim_woken_by shim_block(const shim_wait_set *set);
/* Waits until a deadline on the monotonic clock. */
shim_woken_by shim_park_until(int64_t deadline, shim_wait_purpose purpose);
/* Pauses before the next attempt at an operation that cannot be waited for in any other way. `pause` starts at 0; each
 * pause is longer than the previous one, up to a limit. Returns false if the caller has to block. A pause ends at once
 * if the request is a cancelled task. */
bool shim_park_briefly(int64_t *pause, shim_wait_purpose purpose);
/* Advances `pause` to the length of the next pause, in nanoseconds. */
void shim_pause_lengthen(int64_t *pause);
void shim_reactor_install(void);
void shim_reactor_close(void);

/* ---- Requests that wait for a deadline (timers.c) ---- */

/* Adds the fiber's deadline. Returns false if out of memory. */
bool shim_timer_add(shim_fiber *fiber);
/* Removes the fiber's deadline; harmless if it has none. */
void shim_timer_remove(shim_fiber *fiber);
/* Returns the fiber with the earliest deadline; NULL if there is none. */
shim_fiber *shim_timer_first(void);
void shim_timers_close(void);

/* Returns the time after this duration from now, on the clock of shim_now(); at most a year and the nanoseconds, and
 * never 0, which means no deadline. */
int64_t shim_deadline_after(int64_t seconds, int64_t nanoseconds);
/* The same for a duration with a fraction; a year at most. */
int64_t shim_deadline_after_seconds(double seconds);
/* Computes the deadline of a parameter `?float $timeout = null`; 0 if it is null. If it is negative, returns false and
 * throws the same exception as PHP's own functions. */
bool shim_deadline_of(int64_t *deadline, double timeout, bool is_null, uint32_t parameter);

/* ---- Requests that wait for completions (waiters.c) ---- */

typedef enum shim_waiter_added {
    SHIM_WAITER_ADDED,
    /* One of the completions is complete, so there is no wait. */
    SHIM_WAITER_COMPLETE,
    /* Out of memory. */
    SHIM_WAITER_FAILED,
} shim_waiter_added;

/* Starts waiting for the completions of the request's set, if there are any. If one is already complete, `member` is
 * its index. */
shim_waiter_added shim_waiter_add(shim_fiber *fiber, unsigned *member);
/* Stops waiting; harmless if the request is not waiting. */
void shim_waiter_remove(shim_fiber *fiber);
/* Reserves a number for a thread that blocks; its notifications wake no request. Returns false if out of memory. */
bool shim_waiter_reserve(uint32_t *number);
void shim_waiter_release(uint32_t number);
/* The thread waits no more: frees the list. */
void shim_waiters_close(void);
/* Call in the child of a fork(): the waits belong to its parent. */
void shim_waiters_forget(void);

/* ---- Requests that wait for descriptors (watches.c) ---- */

/* Sets the thread's epoll descriptor, at which all watched descriptors are registered. */
void shim_watches_open(int poller);
void shim_watches_close(void);
/* Closes in the child of a fork(), without changing the waits of its parent. */
void shim_watches_forget(void);
bool shim_watches_any(void);

typedef enum shim_watched {
    SHIM_WATCHED,
    /* There is no wait: the descriptor is ready, as files that epoll does not support (those on disk) always are. */
    SHIM_WATCH_READY,
    /* The descriptor is not open. */
    SHIM_WATCH_CLOSED,
    /* Out of memory. */
    SHIM_WATCH_FAILED,
} shim_watched;

/* Makes the request wait for the events of the watch. */
shim_watched shim_watch_add(shim_fiber *fiber, shim_watch *watch);
/* Stops waiting; harmless if there is no wait. */
void shim_watch_remove(shim_watch *watch);
/* Whether a request waits for the descriptor in a call that continues to use it. */
bool shim_watches_use(int descriptor);
/* Call before the descriptor is closed: wakes the requests that wait for it. */
void shim_watches_closed(int descriptor);
/* Wakes the requests that wait for the reported events. */
void shim_watches_wake(const struct epoll_event *event);

#endif
