/* OPcache restarts (memory or hash table full, opcache_reset()) behind a barrier.
 *
 * A restart rewrites the shared memory that running scripts execute from. OPcache uses a record lock to find out
 * whether there are readers (F_GETLK on byte 1 of its lock file). Record locks belong to processes, not threads, so
 * within one process the answer would always be that there are none. The call is answered here instead, for the threads
 * of this process: there are no readers only if the host has made the calling thread the only one inside a request and
 * keeps the others out until the request has started. Otherwise, the answer is that there is a reader, and OPcache asks
 * again in a later request.
 *
 * The executable's definition of fcntl (php/files/locks.c) takes precedence over libc's in libphp and opcache.so, and calls
 * this file first. */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"
#include "php/opcache/opcache.h"

#include <fcntl.h>
#include <sys/mman.h>

/* The file that OPcache locks; -1 if there is none. */
static int opcache_lock = -1;

int memfd_create(const char *name, unsigned int flags)
{
    int descriptor = NEXT(memfd_create)(name, flags);
    if (strcmp(name, "opcache_lock") == 0) {
        opcache_lock = descriptor;
    }
    return descriptor;
}

static bool is_opcache_lock(int descriptor)
{
    return descriptor >= 0 && descriptor == opcache_lock;
}

/* Outside of requests, a thread asks only while it stops (cache.c). */
static bool is_restart_question(int descriptor, int command, const struct flock *lock)
{
    const bool may_ask = shim_current != NULL ? shim_current->starting : is_opcache_lock(descriptor);
    return may_ask && command == F_GETLK && lock->l_type == F_WRLCK && lock->l_start == 1 && lock->l_len == 1;
}

bool shim_opcache_handles(int descriptor, int command, void *argument)
{
    if ((command == F_SETLK || command == F_SETLKW) && is_opcache_lock(descriptor)) {
        /* No other process uses this file, and OPcache uses a mutex between threads. */
        if (((const struct flock *)argument)->l_type == F_UNLCK) {
            shim_opcache_unlocked();
        }
        return true;
    }
    if (!is_restart_question(descriptor, command, argument)) {
        return false;
    }
    struct flock *lock = argument;
    /* l_pid 0: OPcache kills processes that it believes to have been reading for too long, and 0 is not a process. */
    lock->l_pid = 0;
    lock->l_type = F_RDLCK;
    if (shim_current != NULL && (shim_current->restarting || shim_host.restart.may_begin())) {
        shim_current->restarting = true;
        lock->l_type = F_UNLCK;
    }
    return true;
}
