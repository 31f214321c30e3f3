/* Interposes read() and write(): they wait for pipes in the fiber, and act as recv() and send() on sockets. All other files
 * go straight to libc. */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/connections/owners/owners.h"
#include "worker/hooks/hooks.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

/* read() in code compiled with _FORTIFY_SOURCE. */
extern ssize_t __read_chk(int descriptor, void *buffer, size_t length, size_t size);

/* Finds the hook that waits for the descriptor; returns false if none does. */
static bool hook_of(int descriptor, const void *caller, shim_hook *hook)
{
    if (!shim_hook_is_on_for(SHIM_HOOK_PROCESS, caller) && !shim_hook_is_on_for(SHIM_HOOK_NET, caller)) {
        return false;
    }
    struct stat file;
    const int error = errno;
    const bool is_open = fstat(descriptor, &file) == 0;
    errno = error;
    *hook = is_open && S_ISSOCK(file.st_mode) ? SHIM_HOOK_NET : SHIM_HOOK_PROCESS;
    return is_open && (S_ISSOCK(file.st_mode) || S_ISFIFO(file.st_mode)) && shim_hook_is_on(*hook);
}

/* Waits until the pipe is ready; returns true at once if the pipe is non-blocking, or if the fiber cannot wait. Returns
 * false if the call fails, with errno set. */
static bool wait_until_ready(int descriptor, short events)
{
    struct pollfd look = {.fd = descriptor, .events = events};
    if (NEXT(poll)(&look, 1, 0) != 0 || !shim_is_blocking(descriptor)) {
        return true;
    }
    do {
        switch (shim_hooked_wait_for(SHIM_HOOK_PROCESS, descriptor, events, 0)) {
        case SHIM_WAITED_CHECK:
            break;
        case SHIM_WAITED_BLOCK:
            return true;
        case SHIM_WAITED_EXPIRED:
        case SHIM_WAITED_OVER:
            errno = EIO;
            return false;
        case SHIM_WAITED_CLOSED:
            errno = EBADF;
            return false;
        }
    } while (NEXT(poll)(&look, 1, 0) == 0);
    return true;
}

/* Returns true if libc must not be called: `result` comes from recv(), or is -1 with errno set. */
static bool read_in_fiber(int descriptor, void *buffer, size_t length, const void *caller, ssize_t *result)
{
    shim_hook hook;
    if (length == 0 || !hook_of(descriptor, caller, &hook)) {
        return false;
    }
    if (hook == SHIM_HOOK_NET) {
        *result = shim_socket_take(descriptor) ? shim_receive(descriptor, buffer, length) : -1;
        return true;
    }
    *result = -1;
    return !wait_until_ready(descriptor, POLLIN);
}

ssize_t read(int descriptor, void *buffer, size_t length)
{
    ssize_t result;
    return read_in_fiber(descriptor, buffer, length, SHIM_CALLER, &result) ? result
                                                                           : NEXT(read)(descriptor, buffer, length);
}

ssize_t __read_chk(int descriptor, void *buffer, size_t length, size_t size)
{
    ssize_t result;
    return length <= size && read_in_fiber(descriptor, buffer, length, SHIM_CALLER, &result)
               ? result
               : NEXT(__read_chk)(descriptor, buffer, length, size);
}

/* A writable pipe takes PIPE_BUF bytes without blocking, and writes of that size are atomic. Longer ones go in parts. */
static ssize_t write_in_fiber(int descriptor, const char *bytes, size_t length)
{
    size_t written = 0;
    while (written < length && wait_until_ready(descriptor, POLLOUT)) {
        const size_t rest = length - written;
        const ssize_t size = NEXT(write)(descriptor, bytes + written, rest < PIPE_BUF ? rest : PIPE_BUF);
        if (size < 0) {
            break;
        }
        written += (size_t)size;
    }
    return written > 0 ? (ssize_t)written : -1;
}

ssize_t write(int descriptor, const void *buffer, size_t length)
{
    shim_hook hook;
    if (length == 0 || !hook_of(descriptor, SHIM_CALLER, &hook)) {
        return NEXT(write)(descriptor, buffer, length);
    }
    if (hook == SHIM_HOOK_NET && !shim_socket_take(descriptor)) {
        return -1;
    }
    if (!shim_is_blocking(descriptor)) {
        return NEXT(write)(descriptor, buffer, length);
    }
    return hook == SHIM_HOOK_NET ? shim_send(descriptor, buffer, length) : write_in_fiber(descriptor, buffer, length);
}
