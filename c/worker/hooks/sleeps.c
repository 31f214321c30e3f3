/* sleep(), usleep(), time_nanosleep() and time_sleep_until(): if the hook is in effect, the request yields its thread
 * as in Svc\sleep().
 *
 * They are hooked as functions of PHP, not of libc: a library that pauses may hold a lock, as SQLite does while it
 * waits for another process. PHP's own functions check the arguments, and pause if a request cannot wait. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/files/files.h"
#include "php/libc/libc.h"
#include "worker/hooks/hooks.h"
#include "worker/stack/stack.h"

#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static zif_handler php_sleep_handler;
static zif_handler php_usleep_handler;
static zif_handler php_time_nanosleep_handler;
static zif_handler php_time_sleep_until_handler;

/* Returns false if PHP has to pause. Otherwise the pause is over, or the request has ended: an interrupt ends its
 * script, and a cancelled task gets its exception at once. */
static bool sleep_in_fiber(int64_t seconds, int64_t nanoseconds)
{
    const shim_waited waited = shim_hooked_wait(
        SHIM_HOOK_SLEEP,
        &(shim_wait_set){.deadline = shim_deadline_after(seconds, nanoseconds), .purpose = SHIM_WAITS_FOR_TIME});
    if (waited == SHIM_WAITED_OVER && shim_current->owes_cancelled) {
        shim_current->owes_cancelled = false;
        shim_throw_cancelled();
    }
    return waited != SHIM_WAITED_BLOCK;
}

static ZEND_FUNCTION(sleep_in_fiber)
{
    zend_long seconds;
    if (!shim_hook_is_on(SHIM_HOOK_SLEEP)) {
        php_sleep_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_LONG(seconds)
    ZEND_PARSE_PARAMETERS_END();
    /* PHP passes the value on as an unsigned int. */
    if (seconds > 0 && seconds <= UINT_MAX && sleep_in_fiber(seconds, 0)) {
        RETURN_LONG(0);
    }
    php_sleep_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static ZEND_FUNCTION(usleep_in_fiber)
{
    zend_long microseconds;
    if (!shim_hook_is_on(SHIM_HOOK_SLEEP)) {
        php_usleep_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_LONG(microseconds)
    ZEND_PARSE_PARAMETERS_END();
    if (microseconds > 0 && microseconds <= UINT_MAX &&
        sleep_in_fiber(microseconds / 1000000, microseconds % 1000000 * 1000)) {
        return;
    }
    php_usleep_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static ZEND_FUNCTION(time_nanosleep_in_fiber)
{
    zend_long seconds, nanoseconds;
    if (!shim_hook_is_on(SHIM_HOOK_SLEEP)) {
        php_time_nanosleep_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_LONG(seconds)
        Z_PARAM_LONG(nanoseconds)
    ZEND_PARSE_PARAMETERS_END();
    if (seconds >= 0 && nanoseconds >= 0 && nanoseconds < 1000000000 && seconds + nanoseconds > 0 &&
        sleep_in_fiber(seconds, nanoseconds)) {
        RETURN_TRUE;
    }
    php_time_nanosleep_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static ZEND_FUNCTION(time_sleep_until_in_fiber)
{
    double moment;
    if (!shim_hook_is_on(SHIM_HOOK_SLEEP)) {
        php_time_sleep_until_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_DOUBLE(moment)
    ZEND_PARSE_PARAMETERS_END();
    struct timeval now;
    gettimeofday(&now, NULL);
    const double pause = moment - (double)now.tv_sec - (double)now.tv_usec / 1e6;
    if (pause > 0 && pause < (double)INT32_MAX) {
        const int64_t seconds = (int64_t)pause;
        if (sleep_in_fiber(seconds, (int64_t)((pause - (double)seconds) * 1e9))) {
            RETURN_TRUE;
        }
    }
    php_time_sleep_until_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* ---- pauses of C code that polls for a lock ---- */

/* Two callers of usleep() release their thread while they pause, because a request of the same thread may hold the lock,
 * and polling is futile until that request continues:
 *
 *  - Session handlers, such as Redis's, with any setting, as for the lock of a session file.
 *  - SQLite, which waits for the lock of its database (busy_timeout), if connections have owners: another request may then
 *    run in the middle of a call, but cannot use the connection. While it pauses, SQLite only holds the mutex of the
 *    connection, which is recursive.
 *
 * The pause ends at the request's time limit, and so does the wait: the remaining pauses of SQLite's timeout return at
 * once. Everywhere else, and above all in a script's own usleep(), the thread pauses as usual. */

static bool is_sqlite(const void *caller)
{
    return strncmp(shim_library_at(caller), ZEND_STRL("libsqlite3")) == 0;
}

static bool pause_in_fiber(useconds_t duration, shim_wait_purpose purpose)
{
    return shim_is_over() || shim_park_until(shim_now() + (int64_t)duration * 1000, purpose) != SHIM_NEVER_PARKED;
}

static bool pause_for_lock(useconds_t duration, const void *caller)
{
    if (shim_waits_for_session()) {
        return pause_in_fiber(duration, SHIM_WAITS_FOR_SESSION);
    }
    if (!shim_hook_is_on(SHIM_HOOK_NET) || !is_sqlite(caller)) {
        return false;
    }
    const shim_obstacle obstacle = shim_fiber_obstacle();
    if (obstacle != SHIM_NO_OBSTACLE) {
        shim_hook_blocks(SHIM_HOOK_NET, obstacle);
        return false;
    }
    return pause_in_fiber(duration, SHIM_WAITS_FOR_OTHERS);
}

void shim_sleeps_install(void)
{
    php_sleep_handler = shim_function_replace("sleep", ZEND_FN(sleep_in_fiber));
    php_usleep_handler = shim_function_replace("usleep", ZEND_FN(usleep_in_fiber));
    php_time_nanosleep_handler = shim_function_replace("time_nanosleep", ZEND_FN(time_nanosleep_in_fiber));
    php_time_sleep_until_handler = shim_function_replace("time_sleep_until", ZEND_FN(time_sleep_until_in_fiber));
    shim_wait_hooks.pause = pause_for_lock;
}
