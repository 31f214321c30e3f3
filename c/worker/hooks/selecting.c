/* Interposes select() and pselect(). */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/hooks/descriptor_wait.h"
#include "worker/hooks/hooks.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>

DECLARE_LIBC(select);
DECLARE_LIBC(pselect);

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

static int look(void *argument)
{
    const select_call *call = argument;
    struct timeval now = {0};
    recall(call);
    return LIBC(select)(call->count, call->sets[READ], call->sets[WRITE], call->sets[EXCEPT], &now);
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
static int fail_all(const select_call *call, const struct pollfd *list, nfds_t length)
{
    int failed = 0;
    if (shim_hooked_is_deaf()) {
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
    *result = look(&call);
    if (*result != 0) {
        return true;
    }
    struct pollfd list[FD_SETSIZE];
    const nfds_t length = list_of(&call, list);
    shim_descriptor_end end = {.waited = SHIM_WAITED_LOOK};
    /* `is_in_use` stays false: select() is called for scripts, which name the streams again when they use them. */
    const shim_descriptor_call waits = {
        .list = list, .count = length, .deadline = deadline, .look = look, .call = &call};
    *result = shim_wait_for_descriptors(&waits, &end);
    if (end.waited == SHIM_WAITED_OVER) {
        *result = fail_all(&call, list, length);
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
    const bool waits = timeout == NULL || (timeout->tv_sec >= 0 && timeout->tv_usec >= 0 &&
                                           timeout->tv_usec < 1000000 && (timeout->tv_sec > 0 || timeout->tv_usec > 0));
    if (waits && fits(count) && shim_hook_is_on_for(SHIM_HOOK_NET, SHIM_CALLER)) {
        int result = 0;
        const int64_t deadline = timeout == NULL ? 0 : shim_deadline_in(timeout->tv_sec, timeout->tv_usec * INT64_C(1000));
        if (select_in_fiber(count, reads, writes, excepts, deadline, &result)) {
            if (timeout != NULL && result >= 0) {
                /* Linux updates the timeout to the time left. */
                const int64_t left = shim_time_left(deadline);
                *timeout = (struct timeval){.tv_sec = left / 1000000000, .tv_usec = left % 1000000000 / 1000};
            }
            return result;
        }
    }
    return LIBC(select)(count, reads, writes, excepts, timeout);
}

int pselect(int count, fd_set *reads, fd_set *writes, fd_set *excepts, const struct timespec *timeout,
            const sigset_t *signals)
{
    const bool waits = timeout == NULL || (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 &&
                                           timeout->tv_nsec < 1000000000 && (timeout->tv_sec > 0 || timeout->tv_nsec > 0));
    if (waits && signals == NULL && fits(count) && shim_hook_is_on_for(SHIM_HOOK_NET, SHIM_CALLER)) {
        int result = 0;
        const int64_t deadline = timeout == NULL ? 0 : shim_deadline_in(timeout->tv_sec, timeout->tv_nsec);
        if (select_in_fiber(count, reads, writes, excepts, deadline, &result)) {
            return result;
        }
    }
    return LIBC(pselect)(count, reads, writes, excepts, timeout, signals);
}
