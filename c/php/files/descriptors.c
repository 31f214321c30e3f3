/* Descriptor calls of requests: close(), fcntl() and flock(), which replace those of libc.
 *
 * Requests that wait for a descriptor are woken when it is closed; locks on OPcache's own file are answered immediately
 * (php/opcache/lock.c); waiting for a lock on any other file can park the request (locks.c). All other calls pass through
 * unchanged. */
#include "compat.h"
#include "php/files/files.h"
#include "php/libc/libc.h"
#include "php/opcache/opcache.h"
#include "worker/connections/owners/owners.h"
#include "worker/stack/stack.h"

#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

DECLARE_LIBC(close);
DECLARE_LIBC(fcntl64);

/* epoll silently drops a closed descriptor, unless a duplicate exists, and the number may be reused for another file
 * immediately. */
int close(int descriptor)
{
    shim_file_lock lock;
    const bool is_lock = shim_lock_is_noted(descriptor, &lock);
    shim_watches_closed(descriptor);
    shim_lock_strike(descriptor);
    shim_socket_closed(descriptor);
    const int result = LIBC(close)(descriptor);
    if (is_lock) {
        shim_lock_tell(&lock);
    }
    return result;
}

int flock(int descriptor, int operation)
{
    return shim_lock_file(descriptor, operation);
}

static int control(int descriptor, int command, void *argument)
{
    if (shim_opcache_answers(descriptor, command, argument)) {
        return 0;
    }
    if ((command == F_SETLKW || command == F_OFD_SETLKW) && shim_running != NULL) {
        return shim_lock_record(descriptor, command, argument, LIBC(fcntl64));
    }
    return LIBC(fcntl64)(descriptor, command, argument);
}

int fcntl(int descriptor, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return control(descriptor, command, argument);
}

int fcntl64(int descriptor, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return control(descriptor, command, argument);
}
