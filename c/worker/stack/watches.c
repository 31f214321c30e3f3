/* Requests that wait for descriptors.
 *
 * epoll has one entry per descriptor, whatever the number of requests that wait for it, with the union of their events.
 * It reports once, and is then armed again for the remaining requests. */
#include "compat.h"
#include "worker/stack/stack.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

typedef struct watched {
    shim_watch *first;
    /* Changes with each epoll_ctl(): reports for an earlier serial number are ignored. */
    uint32_t serial;
} watched;

static __thread struct {
    int poller;
    /* Indexed by descriptor. */
    watched *descriptors;
    size_t room;
    /* The number of watches. */
    size_t count;
    uint32_t serial;
} own;

void shim_watches_open(int poller)
{
    own.poller = poller;
}

void shim_watches_close(void)
{
    free(own.descriptors);
    own.descriptors = NULL;
    own.room = own.count = 0;
}

void shim_watches_forget(void)
{
    own.descriptors = NULL;
    own.room = own.count = 0;
}

bool shim_watches_any(void)
{
    return own.count > 0;
}

/* Returns NULL if no request waits for the descriptor. */
static watched *watched_of(int descriptor)
{
    bool is_there = descriptor >= 0 && (size_t)descriptor < own.room;
    return is_there && own.descriptors[descriptor].first != NULL ? &own.descriptors[descriptor] : NULL;
}

static bool reserve(int descriptor)
{
    size_t room = own.room > 0 ? own.room : 256;
    while (room <= (size_t)descriptor) {
        room *= 2;
    }
    if (room == own.room) {
        return true;
    }
    watched *larger = realloc(own.descriptors, room * sizeof(watched));
    if (larger == NULL) {
        return false;
    }
    memset(larger + own.room, 0, (room - own.room) * sizeof(watched));
    own.descriptors = larger;
    own.room = room;
    return true;
}

/* Registers the events of all present watches, plus `more`, with epoll. On failure, returns false and sets errno. */
static bool update_poller(int descriptor, int operation, short more)
{
    watched *watched = &own.descriptors[descriptor];
    short events = more;
    for (const shim_watch *watch = watched->first; watch != NULL; watch = watch->next) {
        events |= watch->events;
    }
    struct epoll_event event = {.data.u64 = (uint64_t)++own.serial << 32 | (uint32_t)descriptor};
    event.events = EPOLLONESHOT | ((events & POLLIN) != 0 ? EPOLLIN | EPOLLRDHUP : 0u) |
                   ((events & POLLOUT) != 0 ? EPOLLOUT : 0u) | ((events & POLLPRI) != 0 ? EPOLLPRI : 0u);
    if (epoll_ctl(own.poller, operation, descriptor, &event) != 0) {
        return false;
    }
    watched->serial = own.serial;
    return true;
}

void shim_watch_remove(shim_watch *watch)
{
    if (watch->fiber == NULL) {
        return;
    }
    watch->fiber = NULL;
    own.count--;
    if (watch->next != NULL) {
        watch->next->previous = watch->previous;
    }
    if (watch->previous != NULL) {
        watch->previous->next = watch->next;
        return;
    }
    own.descriptors[watch->descriptor].first = watch->next;
    if (watch->next == NULL) {
        (void)epoll_ctl(own.poller, EPOLL_CTL_DEL, watch->descriptor, NULL);
    }
}

static void wake(const shim_watch *watch, shim_woken_by by)
{
    shim_fiber *fiber = watch->fiber;
    shim_wake(fiber, by, (unsigned)(watch - fiber->wait_set->watches));
}

/* Wakes all requests that wait for a descriptor that has been closed, or refers to another file by now. */
static void wake_watchers_of(int descriptor)
{
    for (watched *watched = watched_of(descriptor); watched != NULL; watched = watched_of(descriptor)) {
        wake(watched->first, SHIM_WOKEN_BY_CLOSE);
    }
}

bool shim_watches_use(int descriptor)
{
    const watched *watched = watched_of(descriptor);
    const shim_watch *watch = watched != NULL ? watched->first : NULL;
    while (watch != NULL && !watch->is_in_use) {
        watch = watch->next;
    }
    return watch != NULL;
}

void shim_watches_closed(int descriptor)
{
    if (own.count > 0) {
        wake_watchers_of(descriptor);
    }
}

shim_watched shim_watch_add(shim_fiber *fiber, shim_watch *watch)
{
    const int descriptor = watch->descriptor;
    watch->fiber = NULL;
    if (descriptor < 0) {
        return SHIM_WATCHED;
    }
    if (!reserve(descriptor)) {
        return SHIM_WATCH_FAILED;
    }
    if (watched_of(descriptor) != NULL && !update_poller(descriptor, EPOLL_CTL_MOD, watch->events)) {
        /* The watches of this descriptor refer to a file that libc has closed internally. */
        wake_watchers_of(descriptor);
    }
    if (watched_of(descriptor) == NULL && !update_poller(descriptor, EPOLL_CTL_ADD, watch->events)) {
        return errno == EPERM ? SHIM_WATCH_READY : errno == EBADF ? SHIM_WATCH_CLOSED : SHIM_WATCH_FAILED;
    }
    watch->fiber = fiber;
    watch->previous = NULL;
    watch->next = own.descriptors[descriptor].first;
    if (watch->next != NULL) {
        watch->next->previous = watch;
    }
    own.descriptors[descriptor].first = watch;
    own.count++;
    return SHIM_WATCHED;
}

/* Returns the next watch of another request; waking a request removes all its watches. */
static shim_watch *next_of_others(const shim_watch *watch)
{
    shim_watch *next = watch->next;
    while (next != NULL && next->fiber == watch->fiber) {
        next = next->next;
    }
    return next;
}

void shim_watches_wake(const struct epoll_event *event)
{
    const int descriptor = (int)(uint32_t)event->data.u64;
    watched *watched = watched_of(descriptor);
    if (watched == NULL || watched->serial != (uint32_t)(event->data.u64 >> 32)) {
        return;
    }
    const bool is_over = (event->events & (EPOLLERR | EPOLLHUP)) != 0;
    const short events = (short)(((event->events & (EPOLLIN | EPOLLRDHUP)) != 0 ? POLLIN : 0) |
                                 ((event->events & EPOLLOUT) != 0 ? POLLOUT : 0) |
                                 ((event->events & EPOLLPRI) != 0 ? POLLPRI : 0));
    for (shim_watch *watch = watched->first; watch != NULL;) {
        if (!is_over && (watch->events & events) == 0) {
            watch = watch->next;
            continue;
        }
        shim_watch *next = next_of_others(watch);
        wake(watch, SHIM_WOKEN_BY_DESCRIPTOR);
        watch = next;
    }
    if (watched_of(descriptor) != NULL && !update_poller(descriptor, EPOLL_CTL_MOD, 0)) {
        wake_watchers_of(descriptor);
    }
}
