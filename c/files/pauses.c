/* The pauses of session handlers that poll for their lock, such as those for Redis.
 *
 * The executable defines usleep() before libc does. If the session extension is what pauses, the request gives up its
 * thread, as it does while it waits for the lock of a session file: the holder of the lock may be a request of the same
 * thread, and polling would be useless until that request goes on. The pause ends at the request's time limit, and so
 * does the wait. Everywhere else, and above all in a script's own usleep(), the thread pauses as usual. */
#include "compat.h"
#include "context/context.h"
#include "fiber/fiber.h"
#include "fiber/park.h"
#include "files/locks.h"
#include "libc/clock.h"
#include "libc/libc.h"

#include <unistd.h>

DECLARE_LIBC(usleep);

int usleep(useconds_t duration)
{
    if (shim_current == NULL || !shim_waits_for_session()) {
        return LIBC(usleep)(duration);
    }
    if (!shim_is_over() && shim_park_until(shim_now() + (int64_t)duration * 1000, SHIM_WAITS_FOR_SESSION) ==
                               SHIM_NEVER_PARKED) {
        /* A caller that polls does not care whether the pause was interrupted. */
        (void)LIBC(usleep)(duration);
    }
    return shim_is_over() ? shim_give_up() : 0;
}
