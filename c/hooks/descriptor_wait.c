/* Calls that wait for several descriptors: poll(), select() and their kin are one wait for a set. */
#include "compat.h"
#include "fiber/fiber.h"
#include "hooks/descriptor_wait.h"
#include "hooks/hooks.h"
#include "libc/clock.h"
#include "shim.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* So many are on the stack. */
enum { WATCHES_AT_HAND = 16 };

/* One year: beyond any limit, and far below the range of the number. */
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

/* epoll does not take files on disk. Those are always ready; one that is not has been asked for errors alone, and will
 * not have any. */
static void leave_out_files(shim_watch *watches, nfds_t count)
{
    struct stat file;
    for (nfds_t i = 0; i < count; i++) {
        const int descriptor = watches[i].descriptor;
        if (descriptor >= 0 && fstat(descriptor, &file) == 0 && (S_ISREG(file.st_mode) || S_ISDIR(file.st_mode))) {
            watches[i].descriptor = -1;
        }
    }
}

static int wait_with(shim_watch *watches, nfds_t count, int64_t deadline, int (*look)(void *call), void *call,
                     shim_descriptor_end *end)
{
    const shim_wait_set set = {.watches = watches, .watch_count = (unsigned)count, .deadline = deadline};
    for (;;) {
        end->waited = shim_hooked_wait(SHIM_HOOK_NET, &set);
        switch (end->waited) {
        case SHIM_WAITED_EXPIRED:
            return look(call);
        case SHIM_WAITED_CLOSED:
            end->closed = watches[shim_running->woken.member].descriptor;
            return -1;
        case SHIM_WAITED_OVER:
        case SHIM_WAITED_BLOCK:
            return -1;
        case SHIM_WAITED_LOOK:
            break;
        }
        const int found = look(call);
        if (found != 0) {
            return found;
        }
        leave_out_files(watches, count);
    }
}

int shim_wait_for_descriptors(const struct pollfd *list, nfds_t count, int64_t deadline, int (*look)(void *call),
                              void *call, shim_descriptor_end *end)
{
    shim_watch at_hand[WATCHES_AT_HAND];
    shim_watch *watches = count <= WATCHES_AT_HAND ? at_hand : calloc(count, sizeof(*watches));
    if (watches == NULL) {
        shim_hook_blocks(SHIM_HOOK_NET, SHIM_OBSTACLE_MEMORY);
        end->waited = SHIM_WAITED_BLOCK;
        return -1;
    }
    for (nfds_t i = 0; i < count; i++) {
        watches[i] = (shim_watch){.descriptor = list[i].fd, .events = list[i].events};
    }
    const int found = wait_with(watches, count, deadline, look, call, end);
    if (watches != at_hand) {
        free(watches);
    }
    return found;
}
