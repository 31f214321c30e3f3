/* Waits of hooked calls: for any set, for several descriptors, for one socket. */
#include "compat.h"
#include "php/context/context.h"
#include "php/files/files.h"
#include "php/libc/libc.h"
#include "shim.h"
#include "worker/hooks/hooks.h"
#include "worker/stack/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

/* The number of refused waits in a row after which a library keeps retrying, and after which it never gives up. */
enum { RETRIES = 8, LAST_RETRIES = 2 * RETRIES };

/* Refuses the wait. A cancelled task gets its exception as soon as the call has returned. */
static shim_waited give_up(void)
{
    shim_running->refusals++;
    if (shim_is_cancelled()) {
        shim_current->owes_cancelled = true;
        zend_atomic_bool_store_ex(&EG(vm_interrupt), true);
    }
    return SHIM_WAITED_OVER;
}

static shim_waited block(shim_hook hook, shim_obstacle obstacle)
{
    shim_hook_blocks(hook, obstacle);
    return SHIM_WAITED_BLOCK;
}

shim_waited shim_hooked_may_wait(shim_hook hook)
{
    if (shim_is_over()) {
        return give_up();
    }
    shim_running->refusals = 0;
    const shim_obstacle obstacle = shim_fiber_obstacle();
    return obstacle != SHIM_NO_OBSTACLE ? block(hook, obstacle) : SHIM_WAITED_CHECK;
}

static shim_waited wait_in_fiber(shim_hook hook, const shim_wait_set *set)
{
    const shim_waited refused = shim_hooked_may_wait(hook);
    if (refused != SHIM_WAITED_CHECK) {
        return refused;
    }
    switch (shim_park(set).by) {
    case SHIM_NEVER_PARKED:
        return block(hook, SHIM_OBSTACLE_MEMORY);
    case SHIM_WOKEN_BY_DESCRIPTOR:
    case SHIM_WOKEN_BY_COMPLETION:
    case SHIM_WOKEN_BY_REQUEST:
        return SHIM_WAITED_CHECK;
    case SHIM_WOKEN_BY_CLOSE:
        return SHIM_WAITED_CLOSED;
    case SHIM_WOKEN_BY_CANCEL:
        return give_up();
    case SHIM_WOKEN_BY_TIME:
        break;
    }
    /* The time was either the call's deadline or the request's time limit. */
    return set->deadline != 0 && shim_now() >= set->deadline ? SHIM_WAITED_EXPIRED : give_up();
}

shim_waited shim_hooked_wait(shim_hook hook, const shim_wait_set *set)
{
    const int error = errno;
    const shim_waited waited = wait_in_fiber(hook, set);
    errno = error;
    return waited;
}

shim_waited shim_hooked_wait_for(shim_hook hook, int descriptor, short events, int64_t deadline)
{
    shim_watch watch = {.descriptor = descriptor, .events = events, .is_in_use = true};
    return shim_hooked_wait(hook, &(shim_wait_set){.watches = &watch, .watch_count = 1, .deadline = deadline});
}

shim_waited shim_hooked_pause(shim_hook hook, int64_t *pause)
{
    shim_pause_lengthen(pause);
    const shim_waited waited = shim_hooked_wait(hook, &(shim_wait_set){.deadline = shim_now() + *pause});
    return waited == SHIM_WAITED_EXPIRED ? SHIM_WAITED_CHECK : waited;
}

bool shim_hooked_keeps_retrying(void)
{
    return shim_running->refusals > RETRIES;
}

bool shim_hooked_never_gives_up(void)
{
    return shim_running->refusals > LAST_RETRIES;
}

bool shim_hooked_may_find(void)
{
    shim_fiber *fiber = shim_running;
    if (fiber->refusals > 0) {
        fiber->refusals = shim_is_over() ? fiber->refusals + 1 : 0;
    }
    return !shim_hooked_never_gives_up();
}

/* ---- several descriptors: poll(), select() and their variants ---- */

/* Sets up to this size are kept on the stack. */
enum { WATCHES_AT_HAND = 16 };

int64_t shim_time_left(int64_t deadline)
{
    const int64_t left = deadline - shim_now();
    return left > 0 ? left : 0;
}

void shim_shut_down(const struct pollfd *list, nfds_t count)
{
    const int error = errno;
    for (nfds_t i = 0; i < count; i++) {
        (void)shutdown(list[i].fd, SHUT_RDWR);
    }
    errno = error;
}

/* Whether the descriptor has failed or hung up, but reports none of the requested events. epoll reports this unasked,
 * select() does not count it as an exception, and it would end every later wait at once. */
static bool has_hung_up(const shim_watch *watch)
{
    struct pollfd look = {.fd = watch->descriptor, .events = watch->events};
    return watch->descriptor >= 0 && NEXT(poll)(&look, 1, 0) > 0 && (look.revents & watch->events) == 0;
}

static int wait_with(shim_watch *watches, const shim_descriptor_call *call, shim_descriptor_end *end)
{
    shim_wait_set set = {
        .watches = watches, .watch_count = (unsigned)call->count, .deadline = call->deadline};
    for (;;) {
        end->waited = shim_hooked_wait(SHIM_HOOK_NET, &set);
        switch (end->waited) {
        case SHIM_WAITED_EXPIRED:
            return call->look(call->call);
        case SHIM_WAITED_CLOSED:
            end->closed = watches[shim_running->woken.member].descriptor;
            return -1;
        case SHIM_WAITED_OVER:
        case SHIM_WAITED_BLOCK:
            return -1;
        case SHIM_WAITED_CHECK:
            break;
        }
        const int found = call->look(call->call);
        if (found != 0) {
            return found;
        }
        shim_watch *const woken = &watches[shim_running->woken.member];
        if (shim_running->woken.is_file || has_hung_up(woken)) {
            /* Regular files are always ready; this one is not, so the caller requested events that files never report. */
            woken->descriptor = -1;
            /* Without any descriptor left, the request's time limit still ends the wait. */
            set.awaits_grant = true;
        }
    }
}

int shim_wait_for_descriptors(const shim_descriptor_call *call, shim_descriptor_end *end)
{
    const nfds_t count = call->count;
    shim_watch at_hand[WATCHES_AT_HAND];
    shim_watch *watches = count <= WATCHES_AT_HAND ? at_hand : calloc(count, sizeof(*watches));
    if (watches == NULL) {
        shim_hook_blocks(SHIM_HOOK_NET, SHIM_OBSTACLE_MEMORY);
        end->waited = SHIM_WAITED_BLOCK;
        return -1;
    }
    for (nfds_t i = 0; i < count; i++) {
        watches[i] = (shim_watch){
            .descriptor = call->list[i].fd, .events = call->list[i].events, .is_in_use = call->is_in_use};
    }
    const int found = wait_with(watches, call, end);
    if (watches != at_hand) {
        free(watches);
    }
    return found;
}

/* ---- one socket, with the timeouts of its options ---- */

bool shim_is_blocking(int descriptor)
{
    const int flags = NEXT(fcntl64)(descriptor, F_GETFL);
    return flags >= 0 && (flags & O_NONBLOCK) == 0;
}

void shim_close_at_exec(int descriptor)
{
    const int error = errno;
    (void)NEXT(fcntl64)(descriptor, F_SETFD, FD_CLOEXEC);
    errno = error;
}

int64_t shim_socket_deadline(int descriptor, int option)
{
    struct timeval time = {0};
    socklen_t size = sizeof(time);
    if (getsockopt(descriptor, SOL_SOCKET, option, &time, &size) != 0 || (time.tv_sec == 0 && time.tv_usec == 0)) {
        return 0;
    }
    return shim_deadline_after(time.tv_sec, time.tv_usec * INT64_C(1000));
}

/* Whether the caller tries again; sets errno if the call fails. */
static bool may_retry(shim_waited waited)
{
    switch (waited) {
    case SHIM_WAITED_CHECK:
        return true;
    case SHIM_WAITED_EXPIRED:
        errno = EAGAIN;
        return false;
    case SHIM_WAITED_CLOSED:
        errno = EBADF;
        return false;
    case SHIM_WAITED_OVER:
        errno = ECONNRESET;
        return false;
    case SHIM_WAITED_BLOCK:
        break;
    }
    return false;
}

bool shim_wait_for_socket(int descriptor, short events, int64_t deadline, shim_waited *waited)
{
    *waited = shim_hooked_wait_for(SHIM_HOOK_NET, descriptor, events, deadline);
    return may_retry(*waited);
}

/* Identifies the descriptor's file: a pause does not end when the descriptor is closed. Its number may belong to another
 * socket by then, but no other socket has its inode while it is open, and a new one hardly ever has. */
static ino_t inode_of(int descriptor)
{
    struct stat file;
    return fstat(descriptor, &file) == 0 ? file.st_ino : 0;
}

bool shim_pause_at_socket(int descriptor, int64_t deadline, int64_t *pause, shim_waited *waited)
{
    const ino_t inode = inode_of(descriptor);
    if (deadline != 0 && shim_time_left(deadline) == 0) {
        *waited = SHIM_WAITED_EXPIRED;
    } else {
        *waited = shim_hooked_pause(SHIM_HOOK_NET, pause);
        if (*waited == SHIM_WAITED_CHECK && inode_of(descriptor) != inode) {
            *waited = SHIM_WAITED_CLOSED;
        }
    }
    return may_retry(*waited);
}
