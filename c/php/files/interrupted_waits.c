/* Waits that PHP restarts after EINTR: time_sleep_until(), sem_acquire(), and session handlers that poll for their lock.
 * Without these definitions, the signal of the time limit would not end them: the thread would wait until that time, or
 * until the semaphore or the session is released. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/files/files.h"
#include "php/libc/libc.h"

#include <errno.h>
#include <sys/sem.h>
#include <time.h>
#include <unistd.h>

static bool is_futile(int result, int error)
{
    return result != 0 && error == EINTR && shim_is_over();
}

/* Reports a complete sleep, so that PHP returns and the time limit takes effect. */
int nanosleep(const struct timespec *duration, struct timespec *rest)
{
    if (!shim_is_in_request()) {
        return NEXT(nanosleep)(duration, rest);
    }
    shim_execution_timer_set_interrupting(true);
    const int result = NEXT(nanosleep)(duration, rest), error = errno;
    shim_execution_timer_set_interrupting(false);
    errno = error;
    return is_futile(result, error) ? 0 : result;
}

int semop(int semaphores, struct sembuf *operations, size_t count)
{
    if (!shim_is_in_request()) {
        return NEXT(semop)(semaphores, operations, count);
    }
    shim_execution_timer_set_interrupting(true);
    const int result = NEXT(semop)(semaphores, operations, count), error = errno;
    shim_execution_timer_set_interrupting(false);
    errno = is_futile(result, error) ? ECANCELED : error;
    return result;
}

/* A caller that polls does not depend on the length of the pause. */
int usleep(useconds_t duration)
{
    if (shim_current == NULL) {
        return NEXT(usleep)(duration);
    }
    const bool has_paused = shim_wait_hooks.pause != NULL && shim_wait_hooks.pause(duration, SHIM_CALLER);
    const int result = has_paused ? 0 : NEXT(usleep)(duration);
    if (!shim_waits_for_session()) {
        return result;
    }
    return shim_is_over() ? shim_give_up() : 0;
}
