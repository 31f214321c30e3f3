/* Interposes recv(), send(), accept() and their variants.
 *
 * Each tries without blocking; if a blocking socket is not ready, the request waits for it in its fiber and tries again. If
 * the request cannot wait without blocking its thread, libc makes the call, with the caller's flags. */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/connections/owners/owners.h"
#include "worker/hooks/hooks.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>

/* recv() and recvfrom() in code compiled with _FORTIFY_SOURCE. */
extern ssize_t __recv_chk(int descriptor, void *buffer, size_t length, size_t size, int flags);
extern ssize_t __recvfrom_chk(int descriptor, void *buffer, size_t length, size_t size, int flags,
                              struct sockaddr *address, socklen_t *address_size);

/* ---- receiving ---- */

/* Receives once, without blocking in the kernel. */
typedef ssize_t (*attempt)(int descriptor, void *call, int flags);

typedef struct receive_call {
    char *buffer;
    size_t length;
    struct sockaddr *address;
    socklen_t *address_size;
} receive_call;

static ssize_t receive(int descriptor, void *argument, int flags)
{
    const receive_call *call = argument;
    return NEXT(recvfrom)(descriptor, call->buffer, call->length, flags, call->address, call->address_size);
}

static ssize_t receive_message(int descriptor, void *message, int flags)
{
    return NEXT(recvmsg)(descriptor, message, flags);
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK;
}

/* The deadline of a call that has not waited yet; one deadline covers all waits of a call. */
enum { NO_WAIT_YET = -1 };

/* Whether the socket has an error. poll() leaves it pending: after a partial transfer, the next call reports it, and
 * SO_ERROR would clear it. */
static bool has_failed(int descriptor)
{
    struct pollfd look = {.fd = descriptor};
    return NEXT(poll)(&look, 1, 0) > 0 && (look.revents & POLLERR) != 0;
}

static bool is_empty(int descriptor)
{
    int count = 0;
    return ioctl(descriptor, FIONREAD, &count) == 0 && count == 0;
}

typedef struct receive_state {
    int flags;
    int64_t deadline;
    /* An earlier part of the same call has received data. */
    bool is_partial;
} receive_state;

/* Receives once; waits in the fiber while that would block. */
static ssize_t receive_in_fiber(attempt once, int descriptor, void *call, receive_state *state)
{
    for (;;) {
        if (state->is_partial && has_failed(descriptor) && is_empty(descriptor)) {
            return -1;
        }
        const ssize_t size = once(descriptor, call, state->flags | MSG_DONTWAIT);
        if (size >= 0 || !would_block()) {
            return size;
        }
        if (state->deadline == NO_WAIT_YET) {
            if (!shim_is_blocking(descriptor)) {
                errno = EAGAIN;
                return -1;
            }
            state->deadline = shim_socket_deadline(descriptor, SO_RCVTIMEO);
        }
        const short events = (state->flags & MSG_OOB) != 0 ? POLLPRI : POLLIN;
        shim_waited waited = SHIM_WAITED_CHECK;
        if (!shim_wait_for_socket(descriptor, events, state->deadline, &waited)) {
            return waited == SHIM_WAITED_BLOCK ? once(descriptor, call, state->flags) : -1;
        }
    }
}

/* MSG_WAITALL: receives until the buffer is full, or the stream ends or fails. */
static ssize_t receive_all(int descriptor, receive_call call, int flags)
{
    receive_state state = {.flags = flags & ~MSG_WAITALL, .deadline = NO_WAIT_YET};
    size_t received = 0;
    while (received < call.length) {
        receive_call rest = call;
        rest.buffer += received;
        rest.length -= received;
        const ssize_t size = receive_in_fiber(receive, descriptor, &rest, &state);
        if (size <= 0) {
            return received > 0 ? (ssize_t)received : size;
        }
        received += (size_t)size;
        state.is_partial = true;
    }
    return (ssize_t)received;
}

/* MSG_WAITALL with MSG_PEEK. Peeked data stays in the socket, so poll() does not report new data; retries after pauses. */
static ssize_t peek_all(int descriptor, receive_call call, int flags)
{
    const int64_t deadline = shim_socket_deadline(descriptor, SO_RCVTIMEO);
    receive_state state = {.flags = flags & ~MSG_WAITALL, .deadline = deadline};
    shim_waited waited = SHIM_WAITED_CHECK;
    int64_t pause = 0;
    for (;;) {
        struct pollfd look = {.fd = descriptor, .events = POLLRDHUP};
        const bool is_whole = NEXT(poll)(&look, 1, 0) > 0;
        const ssize_t size = receive_in_fiber(receive, descriptor, &call, &state);
        if (size <= 0 || (size_t)size == call.length || is_whole) {
            return size;
        }
        if (!shim_pause_at_socket(descriptor, deadline, &pause, &waited)) {
            return waited == SHIM_WAITED_BLOCK    ? receive(descriptor, &call, flags)
                   : waited == SHIM_WAITED_CLOSED ? -1
                                                  : size;
        }
    }
}

static bool is_stream(int descriptor)
{
    int type = 0;
    socklen_t size = sizeof(type);
    return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

static ssize_t receive_for(int descriptor, receive_call call, int flags)
{
    if ((flags & MSG_WAITALL) != 0 && is_stream(descriptor) && shim_is_blocking(descriptor)) {
        return (flags & MSG_PEEK) != 0 ? peek_all(descriptor, call, flags) : receive_all(descriptor, call, flags);
    }
    return receive_in_fiber(receive, descriptor, &call, &(receive_state){.flags = flags, .deadline = NO_WAIT_YET});
}

ssize_t shim_receive(int descriptor, void *buffer, size_t length)
{
    return receive_for(descriptor, (receive_call){.buffer = buffer, .length = length}, 0);
}

static bool is_hooked(int flags, const void *caller)
{
    return (flags & MSG_DONTWAIT) == 0 && shim_hook_is_on_for(SHIM_HOOK_NET, caller);
}

/* Whether the call may continue: its request owns the socket, or the hook does not apply to this caller. Otherwise, errno
 * is set. */
static bool may_use(int descriptor, const void *caller)
{
    return !shim_hook_is_on_for(SHIM_HOOK_NET, caller) || shim_socket_take(descriptor);
}

static ssize_t receive_from(int descriptor, receive_call call, int flags, const void *caller)
{
    if (!may_use(descriptor, caller)) {
        return -1;
    }
    return is_hooked(flags, caller) ? receive_for(descriptor, call, flags) : receive(descriptor, &call, flags);
}

ssize_t recv(int descriptor, void *buffer, size_t length, int flags)
{
    return receive_from(descriptor, (receive_call){.buffer = buffer, .length = length}, flags, SHIM_CALLER);
}

ssize_t recvfrom(int descriptor, void *restrict buffer, size_t length, int flags, struct sockaddr *restrict address,
                 socklen_t *restrict address_size)
{
    const receive_call call = {.buffer = buffer, .length = length, .address = address, .address_size = address_size};
    return receive_from(descriptor, call, flags, SHIM_CALLER);
}

/* libc's own functions end the process if the buffer is too small. */
ssize_t __recv_chk(int descriptor, void *buffer, size_t length, size_t size, int flags)
{
    const receive_call call = {.buffer = buffer, .length = length};
    return length <= size ? receive_from(descriptor, call, flags, SHIM_CALLER)
                          : NEXT(__recv_chk)(descriptor, buffer, length, size, flags);
}

ssize_t __recvfrom_chk(int descriptor, void *buffer, size_t length, size_t size, int flags, struct sockaddr *address,
                       socklen_t *address_size)
{
    const receive_call call = {.buffer = buffer, .length = length, .address = address, .address_size = address_size};
    return length <= size ? receive_from(descriptor, call, flags, SHIM_CALLER)
                          : NEXT(__recvfrom_chk)(descriptor, buffer, length, size, flags, address, address_size);
}

ssize_t recvmsg(int descriptor, struct msghdr *message, int flags)
{
    if (!may_use(descriptor, SHIM_CALLER)) {
        return -1;
    }
    receive_state state = {.flags = flags, .deadline = NO_WAIT_YET};
    /* With MSG_WAITALL, the kernel assembles the whole message. */
    return (flags & MSG_WAITALL) == 0 && is_hooked(flags, SHIM_CALLER)
               ? receive_in_fiber(receive_message, descriptor, message, &state)
               : NEXT(recvmsg)(descriptor, message, flags);
}

/* ---- sending ---- */

/* Sends the buffers of `message`. A blocking stream sends everything, in parts; if a later part fails, returns the number
 * of bytes sent so far. Modifies the message and its list of buffers. */
static ssize_t send_in_fiber(int descriptor, struct msghdr *message, int flags)
{
    size_t sent = 0;
    int64_t deadline = NO_WAIT_YET;
    for (;;) {
        if (sent > 0 && has_failed(descriptor)) {
            return (ssize_t)sent;
        }
        const ssize_t size = NEXT(sendmsg)(descriptor, message, flags | MSG_DONTWAIT);
        if (size < 0 && !would_block()) {
            return sent > 0 ? (ssize_t)sent : -1;
        }
        size_t rest = size > 0 ? (size_t)size : 0;
        sent += rest;
        while (message->msg_iovlen > 0 && rest >= message->msg_iov->iov_len) {
            rest -= message->msg_iov->iov_len;
            message->msg_iov++;
            message->msg_iovlen--;
        }
        if (message->msg_iovlen == 0) {
            return (ssize_t)sent;
        }
        message->msg_iov->iov_base = (char *)message->msg_iov->iov_base + rest;
        message->msg_iov->iov_len -= rest;
        if (sent > 0) {
            /* Control data went out with the first part. */
            message->msg_control = NULL;
            message->msg_controllen = 0;
        }
        if (deadline == NO_WAIT_YET) {
            if (!shim_is_blocking(descriptor)) {
                errno = EAGAIN;
                return sent > 0 ? (ssize_t)sent : -1;
            }
            deadline = shim_socket_deadline(descriptor, SO_SNDTIMEO);
        }
        shim_waited waited = SHIM_WAITED_CHECK;
        if (!shim_wait_for_socket(descriptor, POLLOUT, deadline, &waited)) {
            const ssize_t last = waited == SHIM_WAITED_BLOCK ? NEXT(sendmsg)(descriptor, message, flags) : -1;
            return sent == 0 ? last : (ssize_t)sent + (last > 0 ? last : 0);
        }
    }
}

static ssize_t send_for(int descriptor, const void *buffer, size_t length, int flags, const struct sockaddr *address,
                        socklen_t address_size)
{
    struct iovec part = {.iov_base = (void *)buffer, .iov_len = length};
    struct msghdr message = {
        .msg_name = (void *)address, .msg_namelen = address_size, .msg_iov = &part, .msg_iovlen = 1};
    /* An empty datagram is a datagram: send_in_fiber would skip it. */
    return length == 0 ? NEXT(sendto)(descriptor, buffer, length, flags, address, address_size)
                       : send_in_fiber(descriptor, &message, flags);
}

ssize_t shim_send(int descriptor, const void *buffer, size_t length)
{
    return send_for(descriptor, buffer, length, 0, NULL, 0);
}

static ssize_t send_to(int descriptor, const void *buffer, size_t length, int flags, const struct sockaddr *address,
                       socklen_t address_size, const void *caller)
{
    if (!may_use(descriptor, caller)) {
        return -1;
    }
    return is_hooked(flags, caller) ? send_for(descriptor, buffer, length, flags, address, address_size)
                                    : NEXT(sendto)(descriptor, buffer, length, flags, address, address_size);
}

ssize_t send(int descriptor, const void *buffer, size_t length, int flags)
{
    return send_to(descriptor, buffer, length, flags, NULL, 0, SHIM_CALLER);
}

ssize_t sendto(int descriptor, const void *buffer, size_t length, int flags, const struct sockaddr *address,
               socklen_t address_size)
{
    return send_to(descriptor, buffer, length, flags, address, address_size, SHIM_CALLER);
}

ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    if (!may_use(descriptor, SHIM_CALLER)) {
        return -1;
    }
    enum { PARTS_AT_HAND = 16 };
    struct iovec parts[PARTS_AT_HAND];
    if (message->msg_iovlen == 0 || message->msg_iovlen > PARTS_AT_HAND || !is_hooked(flags, SHIM_CALLER)) {
        return NEXT(sendmsg)(descriptor, message, flags);
    }
    struct msghdr own = *message;
    memcpy(parts, message->msg_iov, message->msg_iovlen * sizeof(*parts));
    own.msg_iov = parts;
    return send_in_fiber(descriptor, &own, flags);
}

/* ---- accepting ---- */

/* Waits until accept() can be called. Returns false if the call fails, with errno set. Also returns true if the socket is
 * non-blocking, or if the fiber cannot wait: accept() then blocks the thread. */
static bool wait_for_connection(int descriptor)
{
    struct pollfd look = {.fd = descriptor, .events = POLLIN};
    int64_t deadline = NO_WAIT_YET;
    while (NEXT(poll)(&look, 1, 0) == 0 && shim_is_blocking(descriptor)) {
        if (deadline == NO_WAIT_YET) {
            deadline = shim_socket_deadline(descriptor, SO_RCVTIMEO);
        }
        shim_waited waited = SHIM_WAITED_CHECK;
        if (!shim_wait_for_socket(descriptor, POLLIN, deadline, &waited)) {
            return waited == SHIM_WAITED_BLOCK;
        }
    }
    return true;
}

/* Sets close-on-exec on an accepted socket if the hook is in effect for `caller`; returns the descriptor. */
static int accepted(int descriptor, const void *caller)
{
    if (descriptor >= 0 && shim_hook_is_in_effect_for(SHIM_HOOK_NET, caller)) {
        shim_close_at_exec(descriptor);
    }
    return descriptor;
}

int accept(int descriptor, struct sockaddr *restrict address, socklen_t *restrict address_size)
{
    return shim_hook_is_on_for(SHIM_HOOK_NET, SHIM_CALLER) && !wait_for_connection(descriptor)
               ? -1
               : accepted(NEXT(accept)(descriptor, address, address_size), SHIM_CALLER);
}

int accept4(int descriptor, struct sockaddr *restrict address, socklen_t *restrict address_size, int flags)
{
    return shim_hook_is_on_for(SHIM_HOOK_NET, SHIM_CALLER) && !wait_for_connection(descriptor)
               ? -1
               : accepted(NEXT(accept4)(descriptor, address, address_size, flags), SHIM_CALLER);
}
