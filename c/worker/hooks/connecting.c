/* Interposes connect().
 *
 * Most libraries connect without blocking and poll() afterwards. Those that wait in connect() itself have a blocking
 * socket; it is non-blocking while the request waits in its fiber. */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/connections/owners/owners.h"
#include "worker/hooks/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

/* Returns the result of a connect() that continued in the background; sets errno if it failed. */
static int outcome(int descriptor)
{
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        return -1;
    }
    errno = error != 0 ? error : errno;
    return error != 0 ? -1 : 0;
}

static bool is_connecting(int descriptor)
{
    struct pollfd writable = {.fd = descriptor, .events = POLLOUT};
    return NEXT(poll)(&writable, 1, 0) == 0;
}

/* Retries on a Unix socket whose listener's backlog is full; poll() does not report when it has room. */
static int try_again(int descriptor, const struct sockaddr *address, socklen_t size, int64_t deadline,
                     shim_waited *waited)
{
    int64_t pause = 0;
    int result = -1;
    do {
        if (!shim_pause_at_socket(descriptor, deadline, &pause, waited)) {
            return -1;
        }
        result = NEXT(connect)(descriptor, address, size);
    } while (result != 0 && errno == EAGAIN);
    return result;
}

/* Connects a socket that is non-blocking by now. */
static int connect_in_fiber(int descriptor, const struct sockaddr *address, socklen_t size, int64_t deadline,
                            shim_waited *waited)
{
    const int result = NEXT(connect)(descriptor, address, size);
    if (result != 0 && errno == EAGAIN && address->sa_family == AF_UNIX) {
        return try_again(descriptor, address, size, deadline, waited);
    }
    if (result == 0 || errno != EINPROGRESS) {
        return result;
    }
    do {
        if (!shim_wait_for_socket(descriptor, POLLOUT, deadline, waited)) {
            errno = *waited == SHIM_WAITED_EXPIRED ? EINPROGRESS : errno;
            return -1;
        }
    } while (is_connecting(descriptor));
    return outcome(descriptor);
}

int connect(int descriptor, const struct sockaddr *address, socklen_t size)
{
    if (shim_hook_is_in_effect_for(SHIM_HOOK_NET, SHIM_CALLER)) {
        shim_close_at_exec(descriptor);
        shim_socket_connected(descriptor);
    }
    if (!shim_hook_is_on_for(SHIM_HOOK_NET, SHIM_CALLER) || address == NULL) {
        return NEXT(connect)(descriptor, address, size);
    }
    const int flags = NEXT(fcntl64)(descriptor, F_GETFL);
    if (flags < 0 || (flags & O_NONBLOCK) != 0 || NEXT(fcntl64)(descriptor, F_SETFL, flags | O_NONBLOCK) != 0) {
        return NEXT(connect)(descriptor, address, size);
    }
    shim_waited waited = SHIM_WAITED_CHECK;
    const int result =
        connect_in_fiber(descriptor, address, size, shim_socket_deadline(descriptor, SO_SNDTIMEO), &waited);
    const int error = errno;
    if (waited != SHIM_WAITED_CLOSED) {
        (void)NEXT(fcntl64)(descriptor, F_SETFL, flags);
    }
    errno = error;
    /* If the fiber cannot wait, libc waits for the connection attempt in progress. */
    return waited == SHIM_WAITED_BLOCK ? NEXT(connect)(descriptor, address, size) : result;
}
