/* The one place where a request waits without its thread.
 *
 * Waits end by a descriptor (epoll), by a moment (a heap of timers), or both; the thread itself sleeps in shim_wait
 * only, which the host's wake-ups end too. Nothing is polled for: without a wait that is due, nobody wakes up. */
#include "compat.h"
#include "context/context.h"
#include "context/host.h"
#include "engine/execution_timer.h"
#include "fiber/carrier.h"
#include "fiber/fiber.h"
#include "fiber/park.h"
#include "fiber/ready.h"
#include "fiber/timers.h"
#include "fiber/watches.h"
#include "libc/clock.h"
#include "libc/libc.h"
#include "shim.h"
#include "state/state.h"

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

enum { FIRST_PAUSE_NS = 500000, LONGEST_PAUSE_NS = 20000000 };

/* Nobody waits for these, and no request holds a lock of one. */
DECLARE_LIBC(close);
DECLARE_LIBC(fcntl64);

/* What epoll says of the worker's own descriptor, which wakes no request. */
enum { NOBODY = 0 };

static __thread struct {
    int poller;
    int wake;
    bool is_open;
} reactor;

/* ---- the thread's own descriptors ---- */

static int keep_high(int descriptor)
{
    if (descriptor < 0) {
        return -1;
    }
    int high = LIBC(fcntl64)(descriptor, F_DUPFD_CLOEXEC, DESCRIPTOR_MIN);
    if (high < 0) {
        return descriptor;
    }
    LIBC(close)(descriptor);
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
        LIBC(close)(poller);
        LIBC(close)(wake);
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
    return open_reactor() ? LIBC(fcntl64)(reactor.wake, F_DUPFD_CLOEXEC, DESCRIPTOR_MIN) : -1;
}

void shim_reactor_close(void)
{
    if (reactor.is_open) {
        LIBC(close)(reactor.poller);
        LIBC(close)(reactor.wake);
        reactor.is_open = false;
    }
    shim_timers_close();
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
    if (fiber->deadline > 0 && !shim_timer_add(fiber)) {
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
        shim_host.worker.parks(fiber->context.owner);
    }
    shim_fiber_switch_out(fiber);
    if (fiber->context.owner != NULL) {
        shim_host.worker.resumes(fiber->context.owner);
    }
    /* First of all: the execution timer may fire as soon as it is armed. */
    shim_current = &fiber->context;
    shim_state_resume(&fiber->state);
    fiber->phase = SHIM_PHASE_RUNNING;
    return fiber->woken;
}

bool shim_park_briefly(int64_t *pause)
{
    *pause = *pause == 0 ? FIRST_PAUSE_NS : *pause * 2;
    if (*pause > LONGEST_PAUSE_NS) {
        *pause = LONGEST_PAUSE_NS;
    }
    return shim_park(-1, 0, shim_now() + *pause, true) == SHIM_WOKEN_BY_TIME;
}

/* How long the thread may sleep, in nanoseconds; negative: for ever. */
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
    shim_fiber *first = shim_timer_first();
    const int64_t now = first != NULL ? shim_now() : 0;
    for (; first != NULL && first->deadline <= now; first = shim_timer_first()) {
        shim_wake(first, SHIM_WOKEN_BY_TIME);
    }
    return shim_ready_count();
}

size_t shim_look(void)
{
    return wake_within(0);
}

size_t shim_wait(void)
{
    return wake_within(sleep_time());
}
