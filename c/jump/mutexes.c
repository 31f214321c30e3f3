/* Mutexes of PHP's that a jump leaves locked.
 *
 * getenv() copies a variable while it holds the lock on the environment, and OPcache allocates while it holds the lock on
 * its memory: whoever has no memory left there jumps, and every thread of the process waits for that lock from then on. In
 * a process with one request PHP need not care. The executable's definitions of the functions that lock come before
 * libphp's, and note who holds what.
 *
 * Invariants. The list is the thread's, in the order of locking. After a jump what was locked since the place is unlocked,
 * once: who unlocks it then a second time (OPcache does, when the request ends) is not heard. */
#include "compat.h"
#include "jump/mutexes.h"
#include "libc/libc.h"

DECLARE_LIBC(tsrm_mutex_lock);
DECLARE_LIBC(tsrm_mutex_unlock);
DECLARE_LIBC(tsrm_env_lock);
DECLARE_LIBC(tsrm_env_unlock);

/* More than PHP ever holds at once. */
enum { HELD_MAX = 16 };

static __thread MUTEX_T held[HELD_MAX];
static __thread unsigned held_count;

/* The one of the environment has no name outside of TSRM. */
static const char environment;
#define ENVIRONMENT ((MUTEX_T)&environment)

static void note(MUTEX_T mutex)
{
    if (held_count < HELD_MAX) {
        held[held_count] = mutex;
    }
    held_count++;
}

/* False: the thread does not hold it. */
static bool strike(MUTEX_T mutex)
{
    if (held_count > HELD_MAX) {
        held_count--;
        return true;
    }
    for (unsigned i = held_count; i > 0; i--) {
        if (held[i - 1] == mutex) {
            memmove(&held[i - 1], &held[i], (held_count - i) * sizeof(held[0]));
            held_count--;
            return true;
        }
    }
    return false;
}

int tsrm_mutex_lock(MUTEX_T mutex)
{
    int result = LIBC(tsrm_mutex_lock)(mutex);
    note(mutex);
    return result;
}

int tsrm_mutex_unlock(MUTEX_T mutex)
{
    return strike(mutex) ? LIBC(tsrm_mutex_unlock)(mutex) : 0;
}

void tsrm_env_lock(void)
{
    LIBC(tsrm_env_lock)();
    note(ENVIRONMENT);
}

void tsrm_env_unlock(void)
{
    if (strike(ENVIRONMENT)) {
        LIBC(tsrm_env_unlock)();
    }
}

unsigned shim_mutexes_held(void)
{
    return held_count;
}

void shim_mutexes_return_to(unsigned count)
{
    while (held_count > count && held_count <= HELD_MAX) {
        MUTEX_T mutex = held[held_count - 1];
        if (mutex == ENVIRONMENT) {
            tsrm_env_unlock();
        } else {
            (void)tsrm_mutex_unlock(mutex);
        }
    }
}
