/* The timer behind max_execution_time and set_time_limit().
 *
 * For each request, Zend creates a timer, arms it, disarms it and deletes it: four system calls, for a limit that
 * hardly any request approaches. Here, a thread keeps one timer from its first request to its end, and a limit in the
 * distant future is only recorded, not passed to the kernel. A watcher (the one-second scan of the pool) reads it, and
 * arms the timer when the limit is near. The timer never fires early, so no system call of a script is interrupted
 * needlessly. If the watcher has not looked recently, limits are passed to the kernel immediately.
 *
 * A limit fires once. Zend ends the script at its next instruction, and until the thread gets there, nothing interrupts
 * it again: PHP waits for streams in calls that it restarts after each interruption, with their full timeout. Code that
 * runs after the script has a limit of the same length, starting when the first one took effect. Until then, the
 * expired limit stays recorded, so that the watcher sees a thread that does not react to it.
 *
 * States of a limit (`word`): none; OWED, which the watcher may change to MOVING; KERNEL. Only the thread itself leaves
 * OWED and KERNEL in other ways, and only the watcher leaves MOVING, after one system call. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"

#include <sched.h>
#include <signal.h>
#include <time.h>

static const int64_t SECOND = 1000000000;
/* A limit this near is passed to the kernel. Longer than a watcher ever sleeps, ... */
static const int64_t NEAR = 4 * SECOND;
/* ... and a thread that has not been looked at for this long is not being watched. */
static const int64_t LATELY = 2 * SECOND;
/* A thread that executes instructions would have reacted to its limit long before this. */
static const int64_t GRACE = SECOND / 4;
/* The interval at which a thread that waits for a lock is interrupted once its limit has expired. */
static const int64_t INSISTENCE = SECOND / 10;

enum holder { NONE = 0, OWED = 1, KERNEL = 2, MOVING = 3 };

struct shim_timer {
    /* Whether this thread runs PHP; its timer may be created before its first request. */
    bool wanted;
    bool exists;
    timer_t timer;
    void *value;
    /* The time at which the limit expires, on the monotonic clock in nanoseconds, times four, plus its holder; 0 if
     * there is none. */
    uint64_t word;
    /* The host's number of the request that the limit belongs to; changes only while there is no limit. */
    uint64_t request;
    /* Whether the recorded limit has interrupted its thread. Owned by the thread. */
    volatile bool fired;
    /* Whether the thread waits in a call for which a single interruption may come too early. Owned by the thread. */
    volatile bool insists;
    /* Whether the limit is replaced instead of removed. Owned by the thread. */
    bool is_held;
    /* The time at which the watcher last looked. Owned by the watcher. */
    int64_t looked_at;
};

static __thread shim_timer own;

static int64_t deadline_of(uint64_t word)
{
    return (int64_t)(word >> 2);
}

static enum holder holder_of(uint64_t word)
{
    return (enum holder)(word & 3);
}

static uint64_t word_of(int64_t deadline, enum holder holder)
{
    return (uint64_t)deadline << 2 | holder;
}

static int arm_kernel_timer(timer_t timer, int64_t wait)
{
    const struct itimerspec later = {.it_value = {.tv_sec = wait / SECOND, .tv_nsec = wait % SECOND}};
    return NEXT(timer_settime)(timer, 0, &later, NULL);
}

/* ---- on the thread itself, including its signal handler ---- */

/* Removes the limit and returns it; the kernel's timer may still be armed. */
static uint64_t take_limit(void)
{
    own.fired = false;
    for (;;) {
        uint64_t word = __atomic_load_n(&own.word, __ATOMIC_ACQUIRE);
        if (holder_of(word) == MOVING) {
            /* This takes no longer than one system call. */
            sched_yield();
        } else if (__atomic_compare_exchange_n(&own.word, &word, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            return word;
        }
    }
}

/* Release: pairs with the watcher's acquire; publishes the limit's request, and that the timer exists. */
static void write_limit(int64_t deadline, enum holder holder)
{
    __atomic_store_n(&own.request, shim_current != NULL ? shim_current->number : 0, __ATOMIC_RELEASE);
    __atomic_store_n(&own.word, word_of(deadline, holder), __ATOMIC_RELEASE);
}

static int no_limit(void)
{
    return holder_of(take_limit()) == KERNEL ? arm_kernel_timer(own.timer, 0) : 0;
}

/* `deadline` is in the future. */
static int limit(int64_t deadline, int64_t now)
{
    enum holder before = holder_of(take_limit());
    bool is_watched = now - __atomic_load_n(&own.looked_at, __ATOMIC_RELAXED) < LATELY;
    if (!is_watched || deadline - now < NEAR) {
        int result = arm_kernel_timer(own.timer, deadline - now);
        write_limit(deadline, KERNEL);
        return result;
    }
    int result = before == KERNEL ? arm_kernel_timer(own.timer, 0) : 0;
    write_limit(deadline, OWED);
    return result;
}

static void limit_at(int64_t deadline)
{
    int64_t now = shim_now();
    (void)limit(deadline > now ? deadline : now + 1, now);
}

int64_t shim_timer_deadline(void)
{
    return own.exists ? deadline_of(__atomic_load_n(&own.word, __ATOMIC_RELAXED)) : 0;
}

void shim_execution_timer_fired(void)
{
    own.fired = true;
    if (own.insists) {
        (void)arm_kernel_timer(own.timer, INSISTENCE);
    }
}

void shim_execution_timer_set_interrupting(bool insists)
{
    own.insists = insists;
    if (insists && own.exists && zend_atomic_bool_load_ex(&EG(timed_out))) {
        (void)arm_kernel_timer(own.timer, INSISTENCE);
    } else if (!insists && own.exists && holder_of(__atomic_load_n(&own.word, __ATOMIC_RELAXED)) == KERNEL &&
        shim_timer_deadline() <= shim_now()) {
        (void)arm_kernel_timer(own.timer, 0);
    }
}

void shim_execution_timer_hold(void)
{
    own.is_held = own.exists;
}

void shim_execution_timer_release(void)
{
    if (own.is_held) {
        own.is_held = false;
        (void)no_limit();
        zend_atomic_bool_store_ex(&EG(timed_out), false);
    }
}

/* zend_timeout() clears the flag before it raises its error. */
void shim_execution_timer_script_failed(void)
{
    int64_t deadline = own.exists ? shim_timer_deadline() : 0;
    int64_t now = shim_now();
    if (deadline > 0 && deadline <= now && EG(timeout_seconds) > 0 && !zend_atomic_bool_load_ex(&EG(timed_out))) {
        limit_at(now + EG(timeout_seconds) * SECOND);
    }
}

/* PHP 8.3 disarms the timer at this point, which would remove the limit before it has taken effect. */
static bool is_in_zend_timeout(void)
{
    return own.fired && !zend_atomic_bool_load_ex(&EG(timed_out)) && shim_timer_deadline() <= shim_now();
}

/* ---- called by Zend ---- */

static bool is_execution_timer(clockid_t clock, const struct sigevent *event)
{
    return own.wanted && clock == CLOCK_BOOTTIME && event != NULL && event->sigev_notify == SIGEV_THREAD_ID &&
           event->sigev_signo == SIGRTMIN;
}

int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
    if (!is_execution_timer(clock, event)) {
        return NEXT(timer_create)(clock, event, timer);
    }
    if (own.exists && own.value == event->sigev_value.sival_ptr) {
        *timer = own.timer;
        return 0;
    }
    int result = NEXT(timer_create)(clock, event, timer);
    if (result == 0 && !own.exists) {
        own.exists = true;
        own.timer = *timer;
        own.value = event->sigev_value.sival_ptr;
    }
    return result;
}

int timer_delete(timer_t timer)
{
    if (own.exists && timer == own.timer) {
        /* PHP has disarmed it (zend_unset_timeout), or it has fired. */
        return 0;
    }
    return NEXT(timer_delete)(timer);
}

int timer_settime(timer_t timer, int flags, const struct itimerspec *value, struct itimerspec *old)
{
    bool is_a_limit = own.exists && timer == own.timer && value != NULL && flags == 0 && old == NULL;
    if (!is_a_limit) {
        return NEXT(timer_settime)(timer, flags, value, old);
    }
    int64_t wait = (int64_t)value->it_value.tv_sec * SECOND + value->it_value.tv_nsec;
    if (wait <= 0) {
        if (is_in_zend_timeout()) {
            return arm_kernel_timer(own.timer, 0);
        }
        if (!own.is_held || EG(timeout_seconds) <= 0) {
            return no_limit();
        }
        wait = EG(timeout_seconds) * SECOND;
    }
    int64_t now = shim_now();
    return limit(now + wait, now);
}

/* ---- the limit of a suspended request ---- */

void shim_timer_suspend(shim_timer_state *state)
{
    *state = (shim_timer_state){.deadline = shim_timer_deadline()};
    if (state->deadline > 0) {
        (void)no_limit();
    }
    if (zend_atomic_bool_exchange_ex(&EG(timed_out), false)) {
        state->timed_out = true;
    }
}

void shim_timer_resume(const shim_timer_state *state)
{
    if (own.exists && state->deadline > 0) {
        if (state->timed_out) {
            /* The limit has fired. */
            write_limit(state->deadline, KERNEL);
            own.fired = true;
        } else {
            limit_at(state->deadline);
        }
    }
    if (state->timed_out) {
        zend_atomic_bool_store_ex(&EG(timed_out), true);
        zend_atomic_bool_store_ex(&EG(vm_interrupt), true);
    }
}

/* ---- the watcher ---- */

shim_timer *shim_timer_of_thread(void)
{
    return &own;
}

uint64_t shim_timer_check(shim_timer *timer)
{
    int64_t now = shim_now();
    __atomic_store_n(&timer->looked_at, now, __ATOMIC_RELAXED);
    uint64_t word = __atomic_load_n(&timer->word, __ATOMIC_ACQUIRE);
    int64_t wait = deadline_of(word) - now;
    if (holder_of(word) == KERNEL && wait < -GRACE) {
        uint64_t request = __atomic_load_n(&timer->request, __ATOMIC_ACQUIRE);
        /* The request was written before the limit: if the limit is unchanged, so is its request. */
        return word == __atomic_load_n(&timer->word, __ATOMIC_ACQUIRE) ? request : 0;
    }
    if (holder_of(word) != OWED || wait >= NEAR) {
        return 0;
    }
    uint64_t moving = word_of(deadline_of(word), MOVING);
    if (__atomic_compare_exchange_n(&timer->word, &word, moving, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        (void)arm_kernel_timer(timer->timer, wait > 0 ? wait : 1);
        __atomic_store_n(&timer->word, word_of(deadline_of(moving), KERNEL), __ATOMIC_RELEASE);
    }
    return 0;
}

/* ---- the thread's start and end ---- */

void shim_execution_timer_start(void)
{
    own.wanted = true;
}

void shim_execution_timer_forget(void)
{
    own = (shim_timer){.wanted = true};
}

void shim_execution_timer_stop(void)
{
    own.wanted = false;
    if (own.exists) {
        NEXT(timer_delete)(own.timer);
        own.exists = false;
    }
    __atomic_store_n(&own.word, 0, __ATOMIC_RELEASE);
}
