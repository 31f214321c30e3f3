/* Waits for one socket, with the timeouts of its options. */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/hooks/descriptor_wait.h"
#include "worker/hooks/socket_wait.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

DECLARE_LIBC(fcntl64);

bool shim_is_blocking(int descriptor)
{
    const int flags = LIBC(fcntl64)(descriptor, F_GETFL);
    return flags >= 0 && (flags & O_NONBLOCK) == 0;
}

void shim_close_at_exec(int descriptor)
{
    const int error = errno;
    (void)LIBC(fcntl64)(descriptor, F_SETFD, FD_CLOEXEC);
    errno = error;
}

int64_t shim_socket_deadline(int descriptor, int option)
{
    struct timeval time = {0};
    socklen_t size = sizeof(time);
    if (getsockopt(descriptor, SOL_SOCKET, option, &time, &size) != 0 || (time.tv_sec == 0 && time.tv_usec == 0)) {
        return 0;
    }
    return shim_deadline_in(time.tv_sec, time.tv_usec * INT64_C(1000));
}

/* Whether the caller tries again; sets errno if the call fails. */
static bool goes_on(shim_waited waited)
{
    switch (waited) {
    case SHIM_WAITED_LOOK:
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
    return goes_on(*waited);
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
        if (*waited == SHIM_WAITED_LOOK && inode_of(descriptor) != inode) {
            *waited = SHIM_WAITED_CLOSED;
        }
    }
    return goes_on(*waited);
}
