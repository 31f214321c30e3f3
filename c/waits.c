/* What waits: the functions that scripts call to wait, and locks on files, which PHP waits for by itself.
 *
 * The executable's flock() and the lock commands of fcntl() come before libc's. Inside a request that can wait without
 * its thread they try, wait a little, and try again: a session file that another request of the same thread holds is
 * free only when that request goes on. Everywhere else they block as ever. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <time.h>

DECLARE_LIBC(flock);

enum { FIRST_PAUSE_NS = 500000, LONGEST_PAUSE_NS = 20000000 };

/* Waits before the next try; false: the caller is to block. */
static bool pause_between_tries(int64_t *pause)
{
    *pause = *pause == 0 ? FIRST_PAUSE_NS : *pause * 2;
    if (*pause > LONGEST_PAUSE_NS) {
        *pause = LONGEST_PAUSE_NS;
    }
    return shim_park(-1, 0, shim_now() + *pause, true) == SHIM_WOKEN_BY_TIME;
}

/* The request's time is up while it waits for a lock. Whoever called may go on waiting, as a session does: the client
 * hears of it now. */
static bool is_over(void)
{
    if (!zend_atomic_bool_load_ex(&EG(timed_out))) {
        return false;
    }
    if (!shim_current->finished && shim_current->host != NULL) {
        shim_host.time_limit(shim_current->host);
        shim_current->finished = true;
    }
    return true;
}

/* Requests that are parked before a lock, each on its own stack. */
typedef struct lock_wait {
    int descriptor;
    struct lock_wait *next;
    struct lock_wait *before;
} lock_wait;
static __thread lock_wait *lock_waits;

bool shim_is_being_locked(int descriptor)
{
    const lock_wait *wait = lock_waits;
    while (wait != NULL && wait->descriptor != descriptor) {
        wait = wait->next;
    }
    return wait != NULL;
}

static bool pause_before_lock(int descriptor, int64_t *pause)
{
    lock_wait own = {.descriptor = descriptor, .next = lock_waits};
    if (own.next != NULL) {
        own.next->before = &own;
    }
    lock_waits = &own;
    bool goes_on = pause_between_tries(pause);
    if (own.next != NULL) {
        own.next->before = own.before;
    }
    if (own.before != NULL) {
        own.before->next = own.next;
    } else {
        lock_waits = own.next;
    }
    return goes_on;
}

int flock(int descriptor, int operation)
{
    if (shim_running == NULL || (operation & LOCK_NB) != 0 || (operation & LOCK_UN) != 0 || !shim_fiber_may_park()) {
        return LIBC(flock)(descriptor, operation);
    }
    int64_t pause = 0;
    for (;;) {
        int result = LIBC(flock)(descriptor, operation | LOCK_NB);
        if (result == 0 || errno != EWOULDBLOCK) {
            return result;
        }
        if (!pause_before_lock(descriptor, &pause)) {
            return LIBC(flock)(descriptor, operation);
        }
        if (is_over()) {
            errno = EINTR;
            return -1;
        }
    }
}

int shim_lock_record(int descriptor, int command, void *lock, int (*call)(int, int, ...))
{
    int try = command == F_SETLKW ? F_SETLK : F_OFD_SETLK;
    int64_t pause = 0;
    if (shim_running == NULL || !shim_fiber_may_park()) {
        return call(descriptor, command, lock);
    }
    for (;;) {
        int result = call(descriptor, try, lock);
        if (result == 0 || (errno != EAGAIN && errno != EACCES)) {
            return result;
        }
        if (!pause_before_lock(descriptor, &pause)) {
            return call(descriptor, command, lock);
        }
        if (is_over()) {
            errno = EINTR;
            return -1;
        }
    }
}

/* ---- output ---- */

void shim_wait_for_reader(void)
{
    int64_t pause = 0;
    while (shim_running != NULL && shim_fiber_may_park() && shim_host.is_crowded(shim_current->host)) {
        if (!pause_between_tries(&pause)) {
            return;
        }
    }
}

/* ---- Svc\sleep(), Svc\wait_readable(), Svc\wait_writable() ---- */

/* The moment after `seconds`; 0: none. */
static int64_t after(double seconds)
{
    /* A year: beyond any limit, and far from where the number would not fit. */
    double bounded = seconds < 31536000.0 ? seconds : 31536000.0;
    int64_t moment = shim_now() + (int64_t)(bounded * 1e9);
    return moment > 0 ? moment : 1;
}

/* Svc\sleep(float $seconds): void. Other requests of the worker run meanwhile. */
ZEND_NAMED_FUNCTION(shim_sleep)
{
    double seconds;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_DOUBLE(seconds)
    ZEND_PARSE_PARAMETERS_END();
    if (!(seconds >= 0)) {
        zend_argument_value_error(1, "must be greater than or equal to 0");
        RETURN_THROWS();
    }
    int64_t deadline = after(seconds);
    if (shim_park(-1, 0, deadline, true) != SHIM_WOKEN_NEVER_PARKED) {
        return;
    }
    const struct timespec moment = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) == EINTR &&
           !zend_atomic_bool_load_ex(&EG(timed_out))) {
    }
}

static bool has_bytes(const php_stream *stream)
{
    return stream->writepos > stream->readpos;
}

static void wait_for(INTERNAL_FUNCTION_PARAMETERS, short events)
{
    zval *resource;
    double timeout = 0;
    bool is_forever = true;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_RESOURCE(resource)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(timeout, is_forever)
    ZEND_PARSE_PARAMETERS_END();
    if (!is_forever && !(timeout >= 0)) {
        zend_argument_value_error(2, "must be null, or greater than or equal to 0");
        RETURN_THROWS();
    }
    php_stream *stream;
    php_stream_from_zval(stream, resource);
    if (events == POLLIN && has_bytes(stream)) {
        RETURN_TRUE;
    }
    php_socket_t descriptor = -1;
    if (php_stream_cast(stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL, (void **)&descriptor, 0) != SUCCESS) {
        zend_argument_value_error(1, "must be a stream with a descriptor");
        RETURN_THROWS();
    }
    /* What a TLS session has decrypted, of which its descriptor knows nothing, the cast has put there. */
    if (events == POLLIN && has_bytes(stream)) {
        RETURN_TRUE;
    }
    int64_t deadline = is_forever ? 0 : after(timeout);
    /* Most often it is there already, or will not be waited for. */
    struct pollfd look = {.fd = descriptor, .events = events};
    if (poll(&look, 1, 0) != 0) {
        RETURN_TRUE;
    }
    shim_woken woken = shim_park(descriptor, events, deadline, true);
    if (woken != SHIM_WOKEN_NEVER_PARKED) {
        RETURN_BOOL(woken == SHIM_WOKEN_BY_DESCRIPTOR);
    }
    int64_t left_ms = is_forever ? -1 : (deadline - shim_now() + 999999) / 1000000;
    RETURN_BOOL(poll(&look, 1, left_ms > INT_MAX ? INT_MAX : (int)left_ms) > 0);
}

/* Svc\wait_readable(resource $stream, ?float $timeout = null): bool */
ZEND_NAMED_FUNCTION(shim_wait_readable)
{
    wait_for(INTERNAL_FUNCTION_PARAM_PASSTHRU, POLLIN);
}

/* Svc\wait_writable(resource $stream, ?float $timeout = null): bool */
ZEND_NAMED_FUNCTION(shim_wait_writable)
{
    wait_for(INTERNAL_FUNCTION_PARAM_PASSTHRU, POLLOUT);
}
