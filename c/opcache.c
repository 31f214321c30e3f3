/* OPcache restarts (memory or hash table full, opcache_reset()) behind a barrier.
 *
 * A restart rewrites the shared memory that running scripts execute from. OPcache asks whether anybody still reads it
 * with a record lock (F_GETLK on byte 1 of its lock file), which knows processes and not threads, so inside one
 * process the answer would always be "nobody". The question is answered here instead, for this process's threads:
 * "nobody" only if the host has made the calling thread the only one inside a request and keeps the others out until
 * the request has started. Otherwise OPcache is told that somebody reads, and asks again at a later request.
 *
 * The executable's definition of fcntl takes precedence over libc's in libphp and in opcache.so; all other calls but
 * those on OPcache's own lock file go through unchanged. */
#include "internal.h"

#include <fcntl.h>
#include <stdarg.h>

DECLARE_LIBC(fcntl64);

static bool is_restart_question(int command, const struct flock *lock)
{
    return shim_current != NULL && shim_current->starting && command == F_GETLK && lock->l_type == F_WRLCK &&
           lock->l_start == 1 && lock->l_len == 1;
}

static int answer(int descriptor, int command, void *argument)
{
    if ((command == F_SETLK || command == F_SETLKW) && shim_is_opcache_lock(descriptor)) {
        /* No other process has this file, and between threads OPcache uses a mutex. */
        if (((const struct flock *)argument)->l_type == F_UNLCK) {
            shim_cache_unlocked();
        }
        return 0;
    }
    if (is_restart_question(command, argument)) {
        struct flock *lock = argument;
        /* l_pid 0: OPcache kills the processes that it believes to read for too long, and 0 is none of them. */
        lock->l_pid = 0;
        lock->l_type = F_RDLCK;
        if (shim_current->restarting || shim_host.restart_may_begin()) {
            shim_current->restarting = true;
            lock->l_type = F_UNLCK;
        }
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
    return answer(descriptor, command, argument);
}

int fcntl64(int descriptor, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return answer(descriptor, command, argument);
}
