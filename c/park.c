/* The one place where a request waits without its thread.
 *
 * Waits end by a descriptor (epoll), by a moment (a heap of timers), or both; the thread itself sleeps in shim_wait
 * only, which the host's wake-ups end too. Nothing is polled for: without a wait that is due, nobody wakes up. */
#include "watches.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Our descriptors stay out of the range that select() can name. */
enum { DESCRIPTOR_MIN = 1024, EVENTS = 64 };

/* What epoll says of the worker's own descriptor, which wakes no request. */
enum { NOBODY = 0 };

static __thread struct {
    int poller;
    int wake;
    bool is_open;
    shim_fiber **timers;
    uint32_t timers_count;
    uint32_t timers_room;
    shim_fiber *ready_first;
    shim_fiber *ready_last;
    size_t ready_count;
} reactor;

/* ---- those that are ready ---- */

void shim_ready_push(shim_fiber *fiber)
{
    fiber->phase = SHIM_PHASE_READY;
    fiber->next = NULL;
    if (reactor.ready_last != NULL) {
        reactor.ready_last->next = fiber;
    } else {
        reactor.ready_first = fiber;
    }
    reactor.ready_last = fiber;
    reactor.ready_count++;
}

shim_fiber *shim_ready_pop(void)
{
    shim_fiber *fiber = reactor.ready_first;
    if (fiber != NULL) {
        reactor.ready_first = fiber->next;
        if (reactor.ready_first == NULL) {
            reactor.ready_last = NULL;
        }
        reactor.ready_count--;
    }
    return fiber;
}

/* ---- timers: a binary heap, the earliest first ---- */

static void timer_put(uint32_t place, shim_fiber *fiber)
{
    reactor.timers[place] = fiber;
    fiber->timer_place = place + 1;
}

static void timer_up(uint32_t place, shim_fiber *fiber)
{
    while (place > 0 && reactor.timers[(place - 1) / 2]->deadline > fiber->deadline) {
        timer_put(place, reactor.timers[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    timer_put(place, fiber);
}

static void timer_down(uint32_t place, shim_fiber *fiber)
{
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child >= reactor.timers_count) {
            break;
        }
        if (child + 1 < reactor.timers_count && reactor.timers[child + 1]->deadline < reactor.timers[child]->deadline) {
            child++;
        }
        if (reactor.timers[child]->deadline >= fiber->deadline) {
            break;
        }
        timer_put(place, reactor.timers[child]);
        place = child;
    }
    timer_put(place, fiber);
}

static bool timer_add(shim_fiber *fiber)
{
    if (reactor.timers_count == reactor.timers_room) {
        uint32_t room = reactor.timers_room > 0 ? 2 * reactor.timers_room : 64;
        shim_fiber **larger = realloc(reactor.timers, room * sizeof(shim_fiber *));
        if (larger == NULL) {
            return false;
        }
        reactor.timers = larger;
        reactor.timers_room = room;
    }
    timer_up(reactor.timers_count++, fiber);
    return true;
}

static void timer_remove(shim_fiber *fiber)
{
    if (fiber->timer_place == 0) {
        return;
    }
    uint32_t place = fiber->timer_place - 1;
    fiber->timer_place = 0;
    shim_fiber *last = reactor.timers[--reactor.timers_count];
    if (last == fiber) {
        return;
    }
    if (place > 0 && reactor.timers[(place - 1) / 2]->deadline > last->deadline) {
        timer_up(place, last);
    } else {
        timer_down(place, last);
    }
}

/* ---- the thread's own descriptors ---- */

static int keep_high(int descriptor)
{
    if (descriptor < 0) {
        return -1;
    }
    int high = fcntl(descriptor, F_DUPFD_CLOEXEC, DESCRIPTOR_MIN);
    if (high < 0) {
        return descriptor;
    }
    close(descriptor);
    return high;
}

static bool open_reactor(void)
{
    if (reactor.is_open) {
        return true;
    }
    int poller = keep_high(epoll_create1(EPOLL_CLOEXEC));
    int wake = keep_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    struct epoll_event event = {.events = EPOLLIN};
    if (poller < 0 || wake < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, wake, &event) != 0) {
        close(poller);
        close(wake);
        return false;
    }
    reactor.poller = poller;
    shim_watches_open(poller);
    reactor.wake = wake;
    reactor.is_open = true;
    return true;
}

int shim_wake_descriptor(void)
{
    return open_reactor() ? fcntl(reactor.wake, F_DUPFD_CLOEXEC, DESCRIPTOR_MIN) : -1;
}

void shim_reactor_close(void)
{
    if (reactor.is_open) {
        close(reactor.poller);
        close(reactor.wake);
        reactor.is_open = false;
    }
    free(reactor.timers);
    reactor.timers = NULL;
    reactor.timers_count = reactor.timers_room = 0;
    shim_watches_close();
}

/* A child has copies of all that its parent waits for, and the parent's epoll: it makes one of its own. */
static void forget_in_child(void)
{
    reactor.is_open = false;
    shim_watches_forget();
}

void shim_reactor_install(void)
{
    pthread_atfork(NULL, NULL, forget_in_child);
}

/* ---- waiting ---- */

/* Puts the request among those that wait; false: it cannot wait without its thread. */
static bool enlist(shim_fiber *fiber, int descriptor, short events)
{
    fiber->descriptor = -1;
    if (descriptor >= 0 && !shim_watch(fiber, descriptor, events)) {
        return false;
    }
    if (fiber->deadline > 0 && !timer_add(fiber)) {
        shim_unwatch(fiber);
        return false;
    }
    return true;
}

shim_woken shim_park(int descriptor, short events, int64_t deadline, bool limited)
{
    shim_fiber *fiber = shim_running;
    if (!shim_fiber_may_park() || !open_reactor() || !shim_state_prepare(&fiber->state)) {
        return SHIM_WOKEN_NEVER_PARKED;
    }
    int64_t limit = limited ? shim_timer_deadline() : 0;
    fiber->deadline = limit > 0 && (deadline == 0 || limit < deadline) ? limit : deadline;
    if (!enlist(fiber, descriptor, events)) {
        return SHIM_WOKEN_NEVER_PARKED;
    }
    /* From here to the switch, and from the switch back to the end, nothing jumps and no script's code runs. */
    fiber->phase = SHIM_PHASE_PARKED;
    shim_state_suspend(&fiber->state);
    if (fiber->context.owner != NULL) {
        shim_host.parks(fiber->context.owner);
    }
    shim_fiber_switch_out(fiber);
    if (fiber->context.owner != NULL) {
        shim_host.resumes(fiber->context.owner);
    }
    /* First of all: the execution timer may fire as soon as it is armed. */
    shim_current = &fiber->context;
    shim_state_resume(&fiber->state);
    fiber->phase = SHIM_PHASE_RUNNING;
    return fiber->woken;
}

void shim_wake(shim_fiber *fiber, shim_woken why)
{
    shim_unwatch(fiber);
    timer_remove(fiber);
    fiber->woken = why;
    shim_ready_push(fiber);
}

/* How long the thread may sleep, in nanoseconds; negative: for ever. */
static int64_t sleep_time(void)
{
    if (reactor.ready_count > 0) {
        return 0;
    }
    if (reactor.timers_count == 0) {
        return -1;
    }
    int64_t wait = reactor.timers[0]->deadline - shim_now();
    return wait > 0 ? wait : 0;
}

/* epoll_wait() in whole milliseconds would have everybody wait half a millisecond too long, who sleeps for ten. */
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
        /* An old kernel, or a sandbox that does not know the call. */
        __atomic_store_n(&is_coarse, 1, __ATOMIC_RELAXED);
    }
#endif
    int64_t time_ms = time < 0 ? -1 : (time + 999999) / 1000000;
    return epoll_wait(reactor.poller, events, EVENTS, time_ms > INT_MAX ? INT_MAX : (int)time_ms);
}

/* Wakes those whose wait is over within `time`. */
static size_t wake_within(int64_t time)
{
    struct epoll_event events[EVENTS];
    int count = 0;
    if (reactor.is_open && (time != 0 || shim_watches_any())) {
        count = wait_for_events(events, time);
    }
    for (int i = 0; i < count; i++) {
        if (events[i].data.u64 != NOBODY) {
            shim_watches_wake(&events[i]);
            continue;
        }
        uint64_t rings;
        ssize_t size = read(reactor.wake, &rings, sizeof(rings));
        (void)size;
    }
    if (reactor.timers_count > 0) {
        int64_t now = shim_now();
        while (reactor.timers_count > 0 && reactor.timers[0]->deadline <= now) {
            shim_wake(reactor.timers[0], SHIM_WOKEN_BY_TIME);
        }
    }
    return reactor.ready_count;
}

size_t shim_look(void)
{
    return wake_within(0);
}

size_t shim_wait(void)
{
    return wake_within(sleep_time());
}
