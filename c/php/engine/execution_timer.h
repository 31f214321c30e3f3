/* The timer behind max_execution_time and set_time_limit(). */
#ifndef SVC_SHIM_EXECUTION_TIMER_H
#define SVC_SHIM_EXECUTION_TIMER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct shim_timer shim_timer;
void shim_execution_timer_start(void);
void shim_execution_timer_stop(void);
/* Call in a forked child, which inherits no timers. */
void shim_execution_timer_forget(void);
/* The timer of this thread has fired. Async-signal-safe. */
void shim_execution_timer_fired(void);
/* Call when an error ends the script of this thread. If the time limit caused it, the code that runs afterwards gets a
 * limit too. */
void shim_execution_timer_taken(void);
/* Records whether this thread is about to wait in an interruptible call, which gives up once the limit has expired. */
void shim_execution_timer_insists(bool insists);
/* Call when PHP's own end of a request begins: PHP removes the limit there before it closes streams, whose wrappers and
 * filters are script code. Until the release, the following code gets a limit of the same length instead. */
void shim_execution_timer_hold(void);
void shim_execution_timer_release(void);
shim_timer *shim_timer_of_thread(void);
/* Call on one other thread at a time, about once a second while the timer's thread runs PHP. Returns the number of the
 * request whose limit expired a while ago; 0 if there is none. */
uint64_t shim_timer_look(shim_timer *timer);

/* The limit of a suspended request. */
typedef struct shim_timer_state {
    /* The time at which it fires, on the monotonic clock in nanoseconds; 0 if it is not armed. */
    int64_t deadline;
    bool timed_out;
} shim_timer_state;

void shim_timer_suspend(shim_timer_state *state);
void shim_timer_resume(const shim_timer_state *state);
/* Returns the time at which the limit of the running request expires, on the monotonic clock; 0 if it has none. */
int64_t shim_timer_deadline(void);

#endif
