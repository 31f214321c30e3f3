/* Pauses of C code that polls for a lock. The executable defines usleep() before libc does.
 *
 * Two callers release their thread while they pause, because a request of the same thread may hold the lock, and polling is
 * futile until that request continues:
 *
 *  - Session handlers, such as Redis's, with any setting, as for the lock of a session file.
 *  - SQLite, which waits for the lock of its database (busy_timeout), if connections have owners: another request may then
 *    run in the middle of a call, but cannot use the connection. While it pauses, SQLite only holds the mutex of the
 *    connection, which is recursive.
 *
 * The pause ends at the request's time limit, and so does the wait: the remaining pauses of SQLite's timeout return at
 * once. Everywhere else, and above all in a script's own usleep(), the thread pauses as usual. */
#include "compat.h"
#include "php/context/context.h"
#include "php/files/locks.h"
#include "php/libc/clock.h"
#include "php/libc/libc.h"
#include "worker/hooks/hooks.h"
#include "worker/stack/carrier.h"
#include "worker/stack/fiber.h"
#include "worker/stack/park.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

DECLARE_LIBC(usleep);

static bool is_sqlite(const void *caller)
{
    Dl_info info;
    if (dladdr(caller, &info) == 0 || info.dli_fname == NULL) {
        return false;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    return strncmp(slash != NULL ? slash + 1 : info.dli_fname, "libsqlite3", strlen("libsqlite3")) == 0;
}

static void pause_in_fiber(useconds_t duration, shim_wait_purpose purpose)
{
    if (!shim_is_over() &&
        shim_park_until(shim_now() + (int64_t)duration * 1000, purpose) == SHIM_NEVER_PARKED) {
        /* A caller that polls does not depend on the length of the pause: ignore EINTR. */
        (void)LIBC(usleep)(duration);
    }
}

int usleep(useconds_t duration)
{
    if (shim_current == NULL) {
        return LIBC(usleep)(duration);
    }
    if (shim_waits_for_session()) {
        pause_in_fiber(duration, SHIM_WAITS_FOR_SESSION);
        return shim_is_over() ? shim_give_up() : 0;
    }
    if (!shim_hook_is_on(SHIM_HOOK_NET) || !is_sqlite(SHIM_CALLER)) {
        return LIBC(usleep)(duration);
    }
    const shim_obstacle obstacle = shim_fiber_obstacle();
    if (obstacle != SHIM_NO_OBSTACLE) {
        shim_hook_blocks(SHIM_HOOK_NET, obstacle);
        return LIBC(usleep)(duration);
    }
    pause_in_fiber(duration, SHIM_WAITS_FOR_OTHERS);
    return 0;
}
