/* PHP's mutexes that a bailout leaves locked, and those that are missing.
 *
 * getenv() copies a variable while it holds the lock of the environment, and OPcache allocates while it holds the lock
 * of its memory. If memory runs out there, the bailout leaves the lock held, and every thread of the process then
 * blocks on it. This does not matter to PHP in a process with one request. The executable's definitions of the locking
 * functions precede those of libphp; they record which mutexes are held.
 *
 * Invariants. The list belongs to the thread, in locking order. After a bailout, everything locked since the place was
 * recorded is unlocked, once; a second unlock (by OPcache, when the request ends) is ignored. A missing mutex
 * (php/engine/mysqlnd_statistics.c) counts as one that is always free. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/libc/libc.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

/* PHP never holds more at once. */
enum { HELD_MAX = 16 };

static __thread MUTEX_T held[HELD_MAX];
static __thread unsigned held_count;

/* The mutex of the environment has no name outside TSRM. */
static const char environment;
#define ENVIRONMENT ((MUTEX_T)&environment)

static void note(MUTEX_T mutex)
{
    if (held_count < HELD_MAX) {
        held[held_count] = mutex;
    }
    held_count++;
}

/* Returns false if the thread does not hold it. */
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

/* The mutex for which a script waits no longer than its time limit; NULL if there is none. */
static MUTEX_T bounded;

void shim_mutexes_bound(void (*lock_once)(void))
{
    held[held_count] = NULL;
    lock_once();
    bounded = held[held_count];
}

/* Locks the mutex. If it is not free, ends the script at its time limit. */
static int lock_until_limit(MUTEX_T mutex)
{
    enum { PAUSE_NS = 20 * 1000 * 1000, SECOND_NS = 1000 * 1000 * 1000 };
    int result;
    do {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += PAUSE_NS;
        until.tv_sec += until.tv_nsec / SECOND_NS;
        until.tv_nsec %= SECOND_NS;
        result = pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
        if (result == ETIMEDOUT && zend_atomic_bool_load_ex(&EG(timed_out))) {
            zend_timeout();
        }
    } while (result == ETIMEDOUT);
    return result;
}

static zend_never_inline int lock(MUTEX_T mutex)
{
    int result = mutex == bounded ? lock_until_limit(mutex) : NEXT(tsrm_mutex_lock)(mutex);
    note(mutex);
    return result;
}

static zend_never_inline int unlock(MUTEX_T mutex)
{
    return strike(mutex) ? NEXT(tsrm_mutex_unlock)(mutex) : 0;
}

int tsrm_mutex_lock(MUTEX_T mutex)
{
    return mutex != NULL ? lock(mutex) : 0;
}

int tsrm_mutex_unlock(MUTEX_T mutex)
{
    return mutex != NULL ? unlock(mutex) : 0;
}

void tsrm_env_lock(void)
{
    NEXT(tsrm_env_lock)();
    note(ENVIRONMENT);
}

void tsrm_env_unlock(void)
{
    if (strike(ENVIRONMENT)) {
        NEXT(tsrm_env_unlock)();
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
