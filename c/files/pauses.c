/* The pauses of those who ask for a lock again and again: session handlers such as those around Redis.
 *
 * The executable's usleep() comes before libc's. Where the session extension is what pauses, the request gives its thread
 * away, as it does before the lock of a session's file: who holds the lock may be a request of the same thread, and asking
 * would be in vain until that goes on. The pause ends at the time limit of its request, and the wait with it. Everywhere
 * else, in a script's own usleep() above all, the thread pauses as ever. */
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
    if (!shim_is_over() && shim_park_until(shim_now() + (int64_t)duration * 1000) == SHIM_NEVER_PARKED) {
        /* That it was interrupted matters to nobody who asks again. */
        (void)LIBC(usleep)(duration);
    }
    return shim_is_over() ? shim_give_up() : 0;
}
