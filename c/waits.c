/* What waits: the functions that scripts call to wait, and locks on files, which PHP waits for by itself.
 *
 * The executable's flock() and the lock commands of fcntl() come before libc's. Inside a request that can wait without
 * its thread they try, wait a little, and try again: a session file that another request of the same thread holds is
 * free only when that request goes on. Everywhere else they block as ever. A wait for a lock ends at the time limit of
 * its request, also where the session would begin it anew. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
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

static bool is_over(void)
{
    return zend_atomic_bool_load_ex(&EG(timed_out));
}

/* The session extension waits: in a function of its own, or by itself before there is a script. No frames but PHP's are
 * around it. */
static bool is_for_session(void)
{
    const zend_execute_data *frame = EG(current_execute_data);
    const zend_module_entry *module = &shim_module;
    if (frame != NULL && frame->func != NULL) {
        module = frame->func->type == ZEND_INTERNAL_FUNCTION ? frame->func->internal_function.module : NULL;
    }
    if (module == NULL) {
        return false;
    }
    return strcmp(module->name, "session") == 0 || (strcmp(module->name, "svc") == 0 && shim_session_is_active());
}

/* The time of the request is over, and it does not have the lock. Whoever called is told that the wait was interrupted,
 * and the script ends when that returns. A session begins its wait anew then, and on any other error it goes on without
 * the lock: so its script is ended here. */
static int give_up(void)
{
    if (is_for_session()) {
        shim_current->lost_session = true;
        zend_timeout();
    }
    errno = EINTR;
    return -1;
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

/* Waits with the thread. Whoever begins a wait anew when it has been interrupted is not answered at once. */
static int flock_here(int descriptor, int operation)
{
    int result = LIBC(flock)(descriptor, operation | LOCK_NB);
    if (result == 0 || errno != EWOULDBLOCK) {
        return result;
    }
    shim_execution_timer_insists(true);
    do {
        result = LIBC(flock)(descriptor, operation);
    } while (result != 0 && errno == EINTR && !is_over());
    int error = errno;
    shim_execution_timer_insists(false);
    errno = error;
    return result != 0 && error == EINTR ? give_up() : result;
}

/* ---- locks that a request of a worker holds ---- */

static shim_lock *lock_on(shim_fiber *fiber, int descriptor)
{
    for (uint32_t i = 0; i < fiber->locks_count; i++) {
        if (fiber->locks[i].descriptor == descriptor) {
            return &fiber->locks[i];
        }
    }
    return NULL;
}

static bool is_the_same(const shim_lock *lock)
{
    struct stat now;
    return fstat(lock->descriptor, &now) == 0 && now.st_dev == lock->device && now.st_ino == lock->file;
}

static void note_lock(shim_fiber *fiber, int descriptor)
{
    struct stat now;
    shim_lock *lock = lock_on(fiber, descriptor);
    if (fstat(descriptor, &now) != 0) {
        return;
    }
    if (lock == NULL && fiber->locks_count == fiber->locks_room) {
        uint32_t room = fiber->locks_room > 0 ? 2 * fiber->locks_room : 8;
        shim_lock *larger = realloc(fiber->locks, room * sizeof(*larger));
        if (larger == NULL) {
            return;
        }
        fiber->locks = larger;
        fiber->locks_room = room;
    }
    lock = lock != NULL ? lock : &fiber->locks[fiber->locks_count++];
    *lock = (shim_lock){.descriptor = descriptor, .device = now.st_dev, .file = now.st_ino};
}

static void note_unlock(shim_fiber *fiber, int descriptor)
{
    shim_lock *lock = lock_on(fiber, descriptor);
    if (lock != NULL) {
        *lock = fiber->locks[--fiber->locks_count];
    }
}

void shim_locks_release(shim_fiber *fiber)
{
    for (uint32_t i = 0; i < fiber->locks_count; i++) {
        /* The number may be another file's by now, or a lock that somebody else has taken there. */
        if (is_the_same(&fiber->locks[i])) {
            (void)LIBC(flock)(fiber->locks[i].descriptor, LOCK_UN);
        }
    }
    fiber->locks_count = 0;
}

void shim_locks_forget(shim_fiber *fiber)
{
    fiber->locks_count = 0;
}

static int lock_file(int descriptor, int operation);

int flock(int descriptor, int operation)
{
    const int result = lock_file(descriptor, operation);
    if (result == 0 && shim_running != NULL) {
        const int error = errno;
        if ((operation & LOCK_UN) != 0) {
            note_unlock(shim_running, descriptor);
        } else {
            note_lock(shim_running, descriptor);
        }
        errno = error;
    }
    return result;
}

static int lock_file(int descriptor, int operation)
{
    if (shim_current == NULL || (operation & LOCK_NB) != 0 || (operation & LOCK_UN) != 0) {
        return LIBC(flock)(descriptor, operation);
    }
    if (!shim_fiber_may_park() || is_over()) {
        return flock_here(descriptor, operation);
    }
    int64_t pause = 0;
    for (;;) {
        int result = LIBC(flock)(descriptor, operation | LOCK_NB);
        if (result == 0 || errno != EWOULDBLOCK) {
            return result;
        }
        if (!pause_before_lock(descriptor, &pause)) {
            return flock_here(descriptor, operation);
        }
        if (is_over()) {
            return give_up();
        }
    }
}

/* Waits with the thread; whoever called knows interruptions, and begins anew or does not. */
static int lock_record_here(int descriptor, int command, void *lock, int (*call)(int, int, ...))
{
    shim_execution_timer_insists(true);
    int result = call(descriptor, command, lock);
    int error = errno;
    shim_execution_timer_insists(false);
    errno = error;
    return result;
}

int shim_lock_record(int descriptor, int command, void *lock, int (*call)(int, int, ...))
{
    int try = command == F_SETLKW ? F_SETLK : F_OFD_SETLK;
    int64_t pause = 0;
    if (shim_current == NULL) {
        return call(descriptor, command, lock);
    }
    if (!shim_fiber_may_park() || is_over()) {
        return lock_record_here(descriptor, command, lock, call);
    }
    for (;;) {
        int result = call(descriptor, try, lock);
        if (result == 0 || (errno != EAGAIN && errno != EACCES)) {
            return result;
        }
        if (!pause_before_lock(descriptor, &pause)) {
            return lock_record_here(descriptor, command, lock, call);
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
