/* Interposes poll(), select() and their variants. */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/hooks/hooks.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>

/* poll() and ppoll() in code compiled with _FORTIFY_SOURCE. */
extern int __poll_chk(struct pollfd *list, nfds_t count, int timeout, size_t size);
extern int __ppoll_chk(struct pollfd *list, nfds_t count, const struct timespec *timeout, const sigset_t *signals,
                       size_t size);

typedef struct poll_call {
    struct pollfd *list;
    nfds_t count;
} poll_call;

static int look_by_poll(void *argument)
{
    const poll_call *call = argument;
    return NEXT(poll)(call->list, call->count, 0);
}

static int fail(void)
{
    errno = EIO;
    return -1;
}

/* The request is over: reports every descriptor as failed. A library that keeps polling after failed reads, like TLS in the
 * middle of its handshake, gets its sockets shut down; for one that polls even then, like libcurl in a paused transfer,
 * poll() itself fails. */
static int fail_all(struct pollfd *list, nfds_t count)
{
    int failed = 0;
    if (shim_hooked_never_gives_up()) {
        return fail();
    }
    if (shim_hooked_keeps_retrying()) {
        shim_shut_down(list, count);
    }
    for (nfds_t i = 0; i < count; i++) {
        list[i].revents = list[i].fd < 0 ? 0 : POLLERR | POLLHUP;
        failed += list[i].fd >= 0;
    }
    return failed;
}

/* Reports the closed descriptor as the kernel does if it was closed before the call. */
static int report_closed(struct pollfd *list, nfds_t count, int closed)
{
    int found = 0;
    for (nfds_t i = 0; i < count; i++) {
        list[i].revents = list[i].fd == closed ? POLLNVAL : 0;
        found += list[i].fd == closed;
    }
    return found;
}

/* Returns false if the caller has to call libc for the remaining time. */
static bool wait_for(struct pollfd *list, nfds_t count, int64_t deadline, int *result)
{
    poll_call call = {.list = list, .count = count};
    /* Usually, a descriptor is ready. */
    *result = look_by_poll(&call);
    if (*result != 0) {
        *result = shim_hooked_may_find() ? *result : fail();
        return true;
    }
    shim_descriptor_end end = {.waited = SHIM_WAITED_CHECK};
    const shim_descriptor_call waits = {
        .list = list, .count = count, .deadline = deadline, .is_in_use = true, .look = look_by_poll, .call = &call};
    *result = shim_wait_for_descriptors(&waits, &end);
    if (end.waited == SHIM_WAITED_OVER) {
        *result = fail_all(list, count);
    } else if (end.waited == SHIM_WAITED_CLOSED) {
        *result = report_closed(list, count, end.closed);
    }
    return end.waited != SHIM_WAITED_BLOCK;
}

/* Whether the call waits, with a valid timeout and without a signal mask: a caller that changes the mask expects an
 * interrupt, which a fiber does not get. */
static bool is_plain(const struct timespec *timeout, const sigset_t *signals)
{
    return signals == NULL &&
           (timeout == NULL || (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 && timeout->tv_nsec < 1000000000 &&
                                (timeout->tv_sec > 0 || timeout->tv_nsec > 0)));
}

static int64_t deadline_of(const struct timespec *timeout)
{
    return timeout == NULL ? 0 : shim_deadline_after(timeout->tv_sec, timeout->tv_nsec);
}

static int ppoll_in_fiber(struct pollfd *list, nfds_t count, const struct timespec *timeout)
{
    int result = 0;
    const int64_t deadline = deadline_of(timeout);
    if (wait_for(list, count, deadline, &result)) {
        return result;
    }
    const int64_t left = deadline == 0 ? 0 : shim_time_left(deadline);
    const struct timespec rest = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    return NEXT(ppoll)(list, count, deadline == 0 ? NULL : &rest, NULL);
}

static int poll_in_fiber(struct pollfd *list, nfds_t count, int timeout_ms)
{
    const struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L};
    return ppoll_in_fiber(list, count, timeout_ms < 0 ? NULL : &timeout);
}

int poll(struct pollfd *list, nfds_t count, int timeout_ms)
{
    return timeout_ms != 0 && shim_hook_is_on_for(SHIM_HOOK_NET, SHIM_CALLER) ? poll_in_fiber(list, count, timeout_ms)
                                                                              : NEXT(poll)(list, count, timeout_ms);
}

int __poll_chk(struct pollfd *list, nfds_t count, int timeout_ms, size_t size)
{
    const bool fits = size / sizeof(*list) >= count;
    return fits && timeout_ms != 0 && shim_hook_is_on_for(SHIM_HOOK_NET, SHIM_CALLER)
               ? poll_in_fiber(list, count, timeout_ms)
               : NEXT(__poll_chk)(list, count, timeout_ms, size);
}

int ppoll(struct pollfd *list, nfds_t count, const struct timespec *timeout, const sigset_t *signals)
{
    return is_plain(timeout, signals) && shim_hook_is_on_for(SHIM_HOOK_NET, SHIM_CALLER)
               ? ppoll_in_fiber(list, count, timeout)
               : NEXT(ppoll)(list, count, timeout, signals);
}

int __ppoll_chk(struct pollfd *list, nfds_t count, const struct timespec *timeout, const sigset_t *signals, size_t size)
{
    const bool fits = size / sizeof(*list) >= count;
    return fits && is_plain(timeout, signals) && shim_hook_is_on_for(SHIM_HOOK_NET, SHIM_CALLER)
               ? ppoll_in_fiber(list, count, timeout)
               : NEXT(__ppoll_chk)(list, count, timeout, signals, size);
}

/* ---- select() and pselect() ---- */

enum { SETS = 3, READ = 0, WRITE = 1, EXCEPT = 2 };

/* The requested sets, and where the caller wants the results; a missing set is NULL. */
typedef struct select_call {
    int count;
    fd_set *sets[SETS];
    fd_set wanted[SETS];
} select_call;

static void recall(const select_call *call)
{
    for (int i = 0; i < SETS; i++) {
        if (call->sets[i] != NULL) {
            *call->sets[i] = call->wanted[i];
        }
    }
}

static int look_by_select(void *argument)
{
    const select_call *call = argument;
    struct timeval now = {0};
    recall(call);
    return NEXT(select)(call->count, call->sets[READ], call->sets[WRITE], call->sets[EXCEPT], &now);
}

static nfds_t list_of(const select_call *call, struct pollfd *list)
{
    static const short events[SETS] = {[READ] = POLLIN, [WRITE] = POLLOUT, [EXCEPT] = POLLPRI};
    nfds_t length = 0;
    for (int descriptor = 0; descriptor < call->count; descriptor++) {
        short wanted = 0;
        for (int i = 0; i < SETS; i++) {
            wanted |= call->sets[i] != NULL && FD_ISSET(descriptor, &call->wanted[i]) ? events[i] : 0;
        }
        if (wanted != 0) {
            list[length++] = (struct pollfd){.fd = descriptor, .events = wanted};
        }
    }
    return length;
}

/* The request is over: reports every requested descriptor as ready, so that the next read or write fails. */
static int fail_all_sets(const select_call *call, const struct pollfd *list, nfds_t length)
{
    int failed = 0;
    if (shim_hooked_keeps_retrying()) {
        shim_shut_down(list, length);
    }
    recall(call);
    for (nfds_t i = 0; i < length; i++) {
        failed += ((list[i].events & POLLIN) != 0) + ((list[i].events & POLLOUT) != 0);
    }
    if (call->sets[EXCEPT] != NULL) {
        FD_ZERO(call->sets[EXCEPT]);
    }
    return failed;
}

/* Returns false if the caller has to call libc; the sets are unchanged then. */
static bool select_in_fiber(int count, fd_set *reads, fd_set *writes, fd_set *excepts, int64_t deadline, int *result)
{
    select_call call = {.count = count, .sets = {[READ] = reads, [WRITE] = writes, [EXCEPT] = excepts}};
    for (int i = 0; i < SETS; i++) {
        if (call.sets[i] != NULL) {
            call.wanted[i] = *call.sets[i];
        }
    }
    *result = look_by_select(&call);
    if (*result != 0) {
        return true;
    }
    struct pollfd list[FD_SETSIZE];
    const nfds_t length = list_of(&call, list);
    shim_descriptor_end end = {.waited = SHIM_WAITED_CHECK};
    /* `is_in_use` stays false: select() is called for scripts, which name the streams again when they use them. */
    const shim_descriptor_call waits = {
        .list = list, .count = length, .deadline = deadline, .look = look_by_select, .call = &call};
    *result = shim_wait_for_descriptors(&waits, &end);
    if (end.waited == SHIM_WAITED_OVER) {
        *result = fail_all_sets(&call, list, length);
    } else if (end.waited == SHIM_WAITED_CLOSED) {
        errno = EBADF;
    } else if (end.waited == SHIM_WAITED_BLOCK) {
        recall(&call);
    }
    return end.waited != SHIM_WAITED_BLOCK;
}

/* Larger sets than fd_set are left to the kernel. */
static bool fits(int count)
{
    return count >= 0 && count <= FD_SETSIZE;
}

int select(int count, fd_set *reads, fd_set *writes, fd_set *excepts, struct timeval *timeout)
{
    const struct timespec time = timeout != NULL ? (struct timespec){timeout->tv_sec, timeout->tv_usec * 1000}
                                                 : (struct timespec){0};
    const struct timespec *const wait = timeout != NULL ? &time : NULL;
    int result = 0;
    if (!is_plain(wait, NULL) || !fits(count) || !shim_hook_is_on_for(SHIM_HOOK_NET, SHIM_CALLER)) {
        return NEXT(select)(count, reads, writes, excepts, timeout);
    }
    const int64_t deadline = deadline_of(wait);
    if (!select_in_fiber(count, reads, writes, excepts, deadline, &result)) {
        return NEXT(select)(count, reads, writes, excepts, timeout);
    }
    if (timeout != NULL && result >= 0) {
        /* Linux updates the timeout to the time left. */
        const int64_t left = shim_time_left(deadline);
        *timeout = (struct timeval){.tv_sec = left / 1000000000, .tv_usec = left % 1000000000 / 1000};
    }
    return result;
}

int pselect(int count, fd_set *reads, fd_set *writes, fd_set *excepts, const struct timespec *timeout,
            const sigset_t *signals)
{
    int result = 0;
    return is_plain(timeout, signals) && fits(count) && shim_hook_is_on_for(SHIM_HOOK_NET, SHIM_CALLER) &&
                   select_in_fiber(count, reads, writes, excepts, deadline_of(timeout), &result)
               ? result
               : NEXT(pselect)(count, reads, writes, excepts, timeout, signals);
}
