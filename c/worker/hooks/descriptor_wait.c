/* Waits for several descriptors, as poll(), select() and their variants do. */
#include "compat.h"
#include "php/libc/clock.h"
#include "php/libc/libc.h"
#include "shim.h"
#include "worker/hooks/descriptor_wait.h"
#include "worker/hooks/hooks.h"
#include "worker/stack/fiber.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

DECLARE_LIBC(poll);

/* Sets up to this size are kept on the stack. */
enum { WATCHES_AT_HAND = 16 };

/* One year: longer than any time limit, and its nanoseconds are far from overflowing an int64_t. */
enum { SECONDS_MAX = 31536000 };

int64_t shim_deadline_in(int64_t seconds, int64_t nanoseconds)
{
    const int64_t bounded = seconds < SECONDS_MAX ? seconds : SECONDS_MAX;
    const int64_t moment = shim_now() + bounded * 1000000000 + nanoseconds;
    return moment > 0 ? moment : 1;
}

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
static bool is_beyond_hope(const shim_watch *watch)
{
    struct pollfd look = {.fd = watch->descriptor, .events = watch->events};
    return watch->descriptor >= 0 && LIBC(poll)(&look, 1, 0) > 0 && (look.revents & watch->events) == 0;
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
        case SHIM_WAITED_LOOK:
            break;
        }
        const int found = call->look(call->call);
        if (found != 0) {
            return found;
        }
        shim_watch *const woken = &watches[shim_running->woken.member];
        if (shim_running->woken.is_file || is_beyond_hope(woken)) {
            /* Regular files are always ready; this one is not, so the caller requested events that files never report. */
            woken->descriptor = -1;
            /* Without any descriptor left, the request's time limit still ends the wait. */
            set.awaits_turn = true;
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
