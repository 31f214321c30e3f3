/* The only place where a request waits without blocking its thread.
 *
 * A request waits for a set: descriptors (epoll), a moment (a heap of timers), and completions, which the host reports.
 * Any of them ends the wait, and the whole wait is taken down before the request continues. The thread itself sleeps
 * only in shim_wait(), which the host's wake-ups for new requests and for completions also end. Nothing is polled: no
 * thread wakes up unless a wait is over. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"
#include "shim.h"
#include "worker/stack/stack.h"
#include "worker/state/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 64 };

enum { FIRST_PAUSE_NS = 500000, LONGEST_PAUSE_NS = 20000000 };

/* The calls of NEXT() below: no request waits for these descriptors, and none holds a lock on them. poll() blocks the
 * thread. */

/* The epoll data of the thread's own descriptor, which does not wake a request. */
enum { OWN_EVENT = 0 };

static __thread struct {
    int poller;
    int wake;
    bool is_open;
} reactor;

/* ---- the thread's own descriptors ---- */

static int duplicate_high(int descriptor)
{
    return NEXT(fcntl64)(descriptor, F_DUPFD_CLOEXEC, SHIM_DESCRIPTOR_MIN);
}

static int keep_high(int descriptor)
{
    if (descriptor < 0) {
        return -1;
    }
    int high = duplicate_high(descriptor);
    if (high < 0) {
        return descriptor;
    }
    NEXT(close)(descriptor);
    return high;
}

static bool open_reactor(void)
{
    if (reactor.is_open) {
        return true;
    }
    int poller = keep_high(epoll_create1(EPOLL_CLOEXEC));
    int wake = keep_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = OWN_EVENT};
    if (poller < 0 || wake < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, wake, &event) != 0) {
        NEXT(close)(poller);
        NEXT(close)(wake);
        return false;
    }
    reactor.poller = poller;
    shim_watches_open(poller);
    reactor.wake = wake;
    reactor.is_open = true;
    return true;
}

static void reset_wake(void)
{
    uint64_t rings;
    ssize_t size = NEXT(read)(reactor.wake, &rings, sizeof(rings));
    (void)size;
}

int shim_wake_descriptor(void)
{
    return open_reactor() ? duplicate_high(reactor.wake) : -1;
}

void shim_reactor_close(void)
{
    if (reactor.is_open) {
        NEXT(close)(reactor.poller);
        NEXT(close)(reactor.wake);
        reactor.is_open = false;
    }
    shim_timers_close();
    shim_watches_close();
    shim_waiters_close();
}

/* Forgets the parent's waits in a child, which has copies of the watched descriptors and shares the parent's epoll: it
 * creates its own. */
static void forget_in_child(void)
{
    reactor.is_open = false;
    shim_watches_forget();
    shim_waiters_forget();
}

void shim_reactor_install(void)
{
    pthread_atfork(NULL, NULL, forget_in_child);
}

/* ---- cancelled tasks ---- */

/* The host knows which tasks are cancelled; here, each task finds out for itself. A task that executes instructions is
 * interrupted (async/task/running.c), a parked one is woken, and one inside a call finds out when it parks or executes
 * instructions again. */

static __thread LIST_HEAD(, shim_fiber) parked_tasks;

size_t shim_tasks_wake_cancelled(void)
{
    size_t count = 0;
    shim_fiber *fiber;
    LIST_FOREACH(fiber, &parked_tasks, parked) {
        if (fiber->phase == SHIM_PHASE_PARKED && !fiber->context.is_cancelled &&
            shim_context_is_cancelled(&fiber->context)) {
            shim_wake(fiber, SHIM_WOKEN_BY_CANCEL, 0);
            count++;
        }
    }
    return count;
}

/* ---- waiting ---- */

/* Takes down a wait that has ended, or that could not begin. */
static void stop_waiting(shim_fiber *fiber)
{
    const shim_wait_set *set = fiber->wait_set;
    for (unsigned i = 0; i < set->watch_count; i++) {
        shim_watch_remove(&set->watches[i]);
    }
    shim_timer_remove(fiber);
    shim_waiter_remove(fiber);
}

/* Starts watching the descriptors of the request's set. Returns false if the request must not wait; `woken` then holds
 * the reason. */
static bool watch_all(shim_fiber *fiber)
{
    const shim_wait_set *set = fiber->wait_set;
    for (unsigned i = 0; i < set->watch_count; i++) {
        static const shim_woken_by reasons[] = {
            [SHIM_WATCH_READY] = SHIM_WOKEN_BY_DESCRIPTOR,
            [SHIM_WATCH_CLOSED] = SHIM_WOKEN_BY_CLOSE,
            [SHIM_WATCH_FAILED] = SHIM_NEVER_PARKED,
        };
        const shim_watched watched = shim_watch_add(fiber, &set->watches[i]);
        if (fiber->phase == SHIM_PHASE_READY) {
            /* The same descriptor is in the set twice, and turned out to be closed. */
            shim_watch_remove(&set->watches[i]);
            return false;
        }
        if (watched != SHIM_WATCHED) {
            fiber->woken = (shim_woken){.by = reasons[watched], .member = i, .is_file = watched == SHIM_WATCH_READY};
            return false;
        }
    }
    return true;
}

/* Starts waiting for each member of the request's set. Returns false if the request must not wait; `woken` then holds
 * the reason. */
static bool enlist(shim_fiber *fiber)
{
    fiber->woken = (shim_woken){.by = SHIM_NEVER_PARKED};
    /* Makes watches that have not been added safe to remove. */
    for (unsigned i = 0; i < fiber->wait_set->watch_count; i++) {
        fiber->wait_set->watches[i].fiber = NULL;
    }
    unsigned member = 0;
    switch (shim_waiter_add(fiber, &member)) {
    case SHIM_WAITER_ADDED:
        break;
    case SHIM_WAITER_COMPLETE:
        fiber->woken = (shim_woken){.by = SHIM_WOKEN_BY_COMPLETION, .member = member};
        return false;
    case SHIM_WAITER_FAILED:
        return false;
    }
    return watch_all(fiber) && (fiber->deadline == 0 || shim_timer_add(fiber));
}

/* Whether no event would ever end the wait. */
static bool is_endless(const shim_wait_set *set)
{
    unsigned i = 0;
    while (i < set->watch_count && set->watches[i].descriptor < 0) {
        i++;
    }
    return i == set->watch_count && set->completion_count == 0 && set->deadline == 0 && !set->awaits_grant;
}

/* Suspends the request until its wait is over. From here to the switch, and from the switch to the end, nothing bails
 * out and no script code runs. */
static void suspend(shim_fiber *fiber)
{
    shim_state_suspend(&fiber->state);
    if (fiber->context.is_task) {
        LIST_INSERT_HEAD(&parked_tasks, fiber, parked);
    }
    if (fiber->context.owner != NULL) {
        shim_host.worker.parks(fiber->context.owner);
    }
    shim_fiber_switch_out(fiber);
    if (fiber->context.is_task) {
        LIST_REMOVE(fiber, parked);
    }
    if (fiber->context.owner != NULL) {
        shim_host.worker.resumes(fiber->context.owner);
    }
    /* Set first: the execution timer may fire as soon as it is armed. */
    shim_current = &fiber->context;
    shim_state_resume(&fiber->state);
}

/* Returns the deadline of the set, or the time limit of the request if that is earlier; 0 if there is none. */
static int64_t deadline_of(const shim_wait_set *set)
{
    const int64_t limit = set->is_unlimited ? 0 : shim_timer_deadline();
    return limit > 0 && (set->deadline == 0 || limit < set->deadline) ? limit : set->deadline;
}

shim_woken shim_park(const shim_wait_set *set)
{
    shim_fiber *fiber = shim_running;
    if (is_endless(set) || !shim_fiber_may_park() || !open_reactor() || !shim_state_prepare(&fiber->state)) {
        return (shim_woken){.by = SHIM_NEVER_PARKED};
    }
    if (shim_is_cancelled()) {
        return (shim_woken){.by = SHIM_WOKEN_BY_CANCEL};
    }
    if (!shim_guards_lift(&fiber->guards, fiber->root_frame)) {
        return (shim_woken){.by = SHIM_NEVER_PARKED};
    }
    fiber->deadline = deadline_of(set);
    fiber->wait_set = set;
    fiber->stop_waiting = stop_waiting;
    fiber->phase = SHIM_PHASE_PARKED;
    const bool waits = enlist(fiber);
    /* Adding a watch may already have woken the request, because its descriptor turned out to be closed. */
    if (waits || fiber->phase == SHIM_PHASE_READY) {
        if (fiber->has_used_connection) {
            shim_fiber_parks(fiber);
        }
        suspend(fiber);
    } else {
        stop_waiting(fiber);
    }
    shim_guards_restore(&fiber->guards);
    fiber->phase = SHIM_PHASE_RUNNING;
    fiber->wait_set = NULL;
    if (fiber->woken.by == SHIM_WOKEN_BY_CANCEL) {
        /* If the call that waited does not return, its script is interrupted. */
        zend_atomic_bool_store_ex(&EG(vm_interrupt), true);
    }
    return fiber->woken;
}

/* ---- blocking the thread ---- */

static bool is_any_complete(const shim_wait_set *set)
{
    for (unsigned i = 0; i < set->completion_count; i++) {
        if (shim_host.completion.is_complete(set->completions[i])) {
            return true;
        }
    }
    return false;
}

/* Sleeps until the thread is woken, for at most `time_ms`, and lets the host process completions. */
static void sleep_here(int time_ms)
{
    struct pollfd wake = {.fd = reactor.wake, .events = POLLIN};
    if (NEXT(poll)(&wake, 1, time_ms) > 0) {
        reset_wake();
    }
    shim_host.completion.poll();
}

shim_woken_by shim_block(const shim_wait_set *set)
{
    if (!open_reactor()) {
        return SHIM_NEVER_PARKED;
    }
    uint32_t number = 0;
    if (!shim_waiter_reserve(&number)) {
        return SHIM_NEVER_PARKED;
    }
    shim_woken_by by = SHIM_NEVER_PARKED;
    for (unsigned i = 0; i < set->completion_count; i++) {
        (void)shim_host.completion.wait(set->completions[i], number);
    }
    /* The signal of the time limit may arrive after the check of its flag and before the sleep: the deadline covers that. */
    const int64_t deadline = deadline_of(set);
    while (by == SHIM_NEVER_PARKED) {
        const int64_t left = deadline == 0 ? INT64_MAX : deadline - shim_now();
        if (is_any_complete(set)) {
            by = SHIM_WOKEN_BY_COMPLETION;
        } else if (left <= 0 || (!set->is_unlimited && zend_atomic_bool_load_ex(&EG(timed_out)))) {
            by = SHIM_WOKEN_BY_TIME;
        } else {
            const int64_t left_ms = left / 1000000 + (left % 1000000 != 0);
            sleep_here(deadline == 0 ? -1 : left_ms > INT_MAX ? INT_MAX : (int)left_ms);
        }
    }
    for (unsigned i = 0; i < set->completion_count; i++) {
        shim_host.completion.stop_waiting(set->completions[i]);
    }
    shim_waiter_release(number);
    /* The thread may have been woken for another reason too: ring again. */
    const uint64_t once = 1;
    ssize_t size = NEXT(write)(reactor.wake, &once, sizeof(once));
    (void)size;
    return by;
}

shim_woken_by shim_park_until(int64_t deadline, shim_wait_purpose purpose)
{
    return shim_park(&(shim_wait_set){.deadline = deadline, .purpose = purpose}).by;
}

void shim_pause_lengthen(int64_t *pause)
{
    *pause = *pause == 0 ? FIRST_PAUSE_NS : *pause * 2;
    if (*pause > LONGEST_PAUSE_NS) {
        *pause = LONGEST_PAUSE_NS;
    }
}

bool shim_park_briefly(int64_t *pause, shim_wait_purpose purpose)
{
    shim_pause_lengthen(pause);
    const shim_woken_by by = shim_park_until(shim_now() + *pause, purpose);
    return by == SHIM_WOKEN_BY_TIME || by == SHIM_WOKEN_BY_CANCEL;
}

/* Returns how long the thread may sleep, in nanoseconds; negative means indefinitely. */
static int64_t sleep_time(void)
{
    if (shim_ready_count() > 0) {
        return 0;
    }
    const shim_fiber *first = shim_timer_first();
    if (first == NULL) {
        return -1;
    }
    int64_t wait = first->deadline - shim_now();
    return wait > 0 ? wait : 0;
}

/* epoll_wait() counts in milliseconds, which would delay a sleep of ten milliseconds by half a millisecond on
 * average. */
static int wait_for_events(struct epoll_event *events, int64_t time)
{
#ifdef SYS_epoll_pwait2
    static int is_coarse;
    if (time > 0 && !__atomic_load_n(&is_coarse, __ATOMIC_RELAXED)) {
        const struct timespec wait = {.tv_sec = time / 1000000000, .tv_nsec = time % 1000000000};
        int count = (int)syscall(SYS_epoll_pwait2, reactor.poller, events, EVENTS, &wait, NULL, 0);
        if (count >= 0 || (errno != ENOSYS && errno != EPERM)) {
            return count;
        }
        /* An old kernel, or a sandbox without this system call. */
        __atomic_store_n(&is_coarse, 1, __ATOMIC_RELAXED);
    }
#endif
    int64_t time_ms = time < 0 ? -1 : (time + 999999) / 1000000;
    return epoll_wait(reactor.poller, events, EVENTS, time_ms > INT_MAX ? INT_MAX : (int)time_ms);
}

/* Wakes the requests whose wait ends within `time`. Returns how many. */
static size_t wake_within(int64_t time)
{
    struct epoll_event events[EVENTS];
    int count = 0;
    if (reactor.is_open && (time != 0 || shim_watches_any())) {
        count = wait_for_events(events, time);
    }
    for (int i = 0; i < count; i++) {
        if (events[i].data.u64 != OWN_EVENT) {
            shim_watches_wake(&events[i]);
        } else {
            reset_wake();
        }
    }
    shim_fiber *first = shim_timer_first();
    const int64_t now = first != NULL ? shim_now() : 0;
    for (; first != NULL && first->deadline <= now; first = shim_timer_first()) {
        shim_wake(first, SHIM_WOKEN_BY_TIME, 0);
    }
    return shim_ready_count();
}

size_t shim_poll(void)
{
    return wake_within(0);
}

size_t shim_wait(int64_t longest)
{
    const int64_t time = sleep_time();
    return wake_within(longest < 0 || (time >= 0 && time < longest) ? time : longest);
}
