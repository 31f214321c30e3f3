/* The timer behind max_execution_time and set_time_limit(). */
#ifndef SVC_SHIM_EXECUTION_TIMER_H
#define SVC_SHIM_EXECUTION_TIMER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct shim_timer shim_timer;
void shim_execution_timer_start(void);
void shim_execution_timer_stop(void);
/* In a forked child, which inherits no timers. */
void shim_execution_timer_forget(void);
/* The timer of this thread has fired. Async-signal-safe. */
void shim_execution_timer_fired(void);
/* An error ends the script of this thread. If the time limit caused it, what runs afterwards gets a limit too. */
void shim_execution_timer_taken(void);
/* Whether this thread is about to wait in a call that can be interrupted, and that gives up once the limit has
 * expired. */
void shim_execution_timer_insists(bool insists);
/* PHP's own end of a request begins, in which PHP removes the limit before it closes streams, whose wrappers and filters are
 * scripts' code. Until the release, what follows gets a limit of the same length instead. */
void shim_execution_timer_hold(void);
void shim_execution_timer_release(void);
shim_timer *shim_timer_of_thread(void);
/* Called by any one other thread, about once a second while the timer's thread runs PHP. Returns the number of the
 * request whose limit expired a while ago; 0 if there is none. */
uint64_t shim_timer_look(shim_timer *timer);

/* The limit of a suspended request. */
typedef struct shim_timer_state {
    /* When it fires, on the monotonic clock in nanoseconds; 0 if it is not armed. */
    int64_t deadline;
    bool timed_out;
} shim_timer_state;

void shim_timer_suspend(shim_timer_state *state);
void shim_timer_resume(const shim_timer_state *state);
/* When the limit of the running request expires, on the monotonic clock; 0 if it has none. */
int64_t shim_timer_deadline(void);

#endif
