/* Which requests wait for which descriptors.
 *
 * epoll knows each descriptor once, however many requests wait for it, with all that they wait for; it says something
 * once, and is told then what the others still wait for. */
#include "compat.h"
#include "fiber/fiber.h"
#include "fiber/ready.h"
#include "fiber/timers.h"
#include "fiber/watches.h"

#include <poll.h>
#include <unistd.h>

typedef struct watch {
    shim_fiber *first;
    /* Another number each time epoll is told: what it says of an earlier one is of no interest. */
    uint32_t serial;
} watch;

static __thread struct {
    int poller;
    /* By descriptor. */
    watch *watches;
    size_t room;
    /* How many requests wait for one. */
    size_t count;
    uint32_t serial;
} own;

void shim_watches_open(int poller)
{
    own.poller = poller;
}

void shim_watches_close(void)
{
    free(own.watches);
    own.watches = NULL;
    own.room = own.count = 0;
}

void shim_watches_forget(void)
{
    own.watches = NULL;
    own.room = own.count = 0;
}

bool shim_watches_any(void)
{
    return own.count > 0;
}

/* NULL: nobody waits for it. */
static watch *watch_of(int descriptor)
{
    bool is_there = descriptor >= 0 && (size_t)descriptor < own.room;
    return is_there && own.watches[descriptor].first != NULL ? &own.watches[descriptor] : NULL;
}

static bool make_room_for(int descriptor)
{
    size_t room = own.room > 0 ? own.room : 256;
    while (room <= (size_t)descriptor) {
        room *= 2;
    }
    if (room == own.room) {
        return true;
    }
    watch *larger = realloc(own.watches, room * sizeof(watch));
    if (larger == NULL) {
        return false;
    }
    memset(larger + own.room, 0, (room - own.room) * sizeof(watch));
    own.watches = larger;
    own.room = room;
    return true;
}

/* Tells epoll what is waited for by those who wait already, and by one who asks for `more`. */
static bool tell_poller(int descriptor, int operation, short more)
{
    watch *watch = &own.watches[descriptor];
    short events = more;
    for (const shim_fiber *fiber = watch->first; fiber != NULL; fiber = fiber->next_watcher) {
        events |= fiber->events;
    }
    struct epoll_event event = {.data.u64 = (uint64_t)++own.serial << 32 | (uint32_t)descriptor};
    event.events = EPOLLONESHOT | ((events & POLLIN) != 0 ? EPOLLIN | EPOLLRDHUP : 0u) |
                   ((events & POLLOUT) != 0 ? EPOLLOUT : 0u) | ((events & POLLPRI) != 0 ? EPOLLPRI : 0u);
    if (epoll_ctl(own.poller, operation, descriptor, &event) != 0) {
        return false;
    }
    watch->serial = own.serial;
    return true;
}

void shim_unwatch(shim_fiber *fiber)
{
    const int descriptor = fiber->descriptor;
    if (descriptor < 0) {
        return;
    }
    fiber->descriptor = -1;
    own.count--;
    if (fiber->next_watcher != NULL) {
        fiber->next_watcher->previous_watcher = fiber->previous_watcher;
    }
    if (fiber->previous_watcher != NULL) {
        fiber->previous_watcher->next_watcher = fiber->next_watcher;
        return;
    }
    own.watches[descriptor].first = fiber->next_watcher;
    if (fiber->next_watcher == NULL) {
        (void)epoll_ctl(own.poller, EPOLL_CTL_DEL, descriptor, NULL);
    }
}

void shim_wake(shim_fiber *fiber, shim_woken why)
{
    shim_unwatch(fiber);
    shim_timer_remove(fiber);
    fiber->woken = why;
    shim_ready_push(fiber);
}

/* The descriptor is closed, or is another file's by now. */
static void wake_watchers_of(int descriptor)
{
    for (watch *watch = watch_of(descriptor); watch != NULL; watch = watch_of(descriptor)) {
        shim_wake(watch->first, SHIM_WOKEN_BY_CLOSE);
    }
}

void shim_watches_closed(int descriptor)
{
    if (own.count > 0) {
        wake_watchers_of(descriptor);
    }
}

bool shim_watch(shim_fiber *fiber, int descriptor, short events)
{
    if (!make_room_for(descriptor)) {
        return false;
    }
    if (watch_of(descriptor) != NULL && !tell_poller(descriptor, EPOLL_CTL_MOD, events)) {
        /* So whoever waits for that number waits for a file that libc has closed by itself. */
        wake_watchers_of(descriptor);
    }
    if (watch_of(descriptor) == NULL && !tell_poller(descriptor, EPOLL_CTL_ADD, events)) {
        return false;
    }
    fiber->descriptor = descriptor;
    fiber->events = events;
    fiber->previous_watcher = NULL;
    fiber->next_watcher = own.watches[descriptor].first;
    if (fiber->next_watcher != NULL) {
        fiber->next_watcher->previous_watcher = fiber;
    }
    own.watches[descriptor].first = fiber;
    own.count++;
    return true;
}

void shim_watches_wake(const struct epoll_event *event)
{
    const int descriptor = (int)(uint32_t)event->data.u64;
    watch *watch = watch_of(descriptor);
    if (watch == NULL || watch->serial != (uint32_t)(event->data.u64 >> 32)) {
        return;
    }
    const bool is_over = (event->events & (EPOLLERR | EPOLLHUP)) != 0;
    const short events = (short)(((event->events & (EPOLLIN | EPOLLRDHUP)) != 0 ? POLLIN : 0) |
                                 ((event->events & EPOLLOUT) != 0 ? POLLOUT : 0) |
                                 ((event->events & EPOLLPRI) != 0 ? POLLPRI : 0));
    for (shim_fiber *fiber = watch->first, *next = NULL; fiber != NULL; fiber = next) {
        next = fiber->next_watcher;
        if (is_over || (fiber->events & events) != 0) {
            shim_wake(fiber, SHIM_WOKEN_BY_DESCRIPTOR);
        }
    }
    if (watch_of(descriptor) != NULL && !tell_poller(descriptor, EPOLL_CTL_MOD, 0)) {
        wake_watchers_of(descriptor);
    }
}
