/* Locks on files that PHP waits for: flock(), and the lock commands of fcntl() (descriptors.c).
 *
 * In a request that can wait without blocking its thread, they try, pause and try again: a session file that is locked
 * by another request of the same thread is released only when that request goes on. Everywhere else they block as
 * usual, except for a lock held by a request of the same thread, which would never be released. Waiting for a lock ends
 * at the time limit of the request, even where the session extension would start waiting again. */
#include "compat.h"
#include "context/context.h"
#include "engine/execution_timer.h"
#include "fiber/cancel.h"
#include "fiber/carrier.h"
#include "fiber/fiber.h"
#include "fiber/park.h"
#include "files/locks.h"
#include "jump/session.h"
#include "libc/libc.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

DECLARE_LIBC(flock);

static bool is_past_limit(void)
{
    return zend_atomic_bool_load_ex(&EG(timed_out));
}

bool shim_is_over(void)
{
    return is_past_limit() || shim_is_cancelled();
}

/* Whether the session extension is what waits: in one of its own functions, or on its own account before there is a
 * script. Only PHP's own frames are around it. */
bool shim_waits_for_session(void)
{
    const zend_execute_data *frame = EG(current_execute_data);
    if (frame == NULL || frame->func == NULL) {
        return shim_session_is_active();
    }
    const bool is_internal = frame->func->type == ZEND_INTERNAL_FUNCTION;
    const zend_module_entry *module = is_internal ? frame->func->internal_function.module : NULL;
    if (module == NULL) {
        return false;
    }
    return strcmp(module->name, "session") == 0 || (strcmp(module->name, "svc") == 0 && shim_session_is_active());
}

/* The request's time limit has expired or its task was cancelled, and it does not have the lock. The caller is told that
 * the wait was interrupted. At the time limit, the script ends when that call returns; a cancelled task gets an exception,
 * so that it does not go on without the lock. The session extension, however, would start waiting again, and after any
 * other error it would go on, so its script is ended here. */
int shim_give_up(void)
{
    if (shim_waits_for_session()) {
        shim_current->lost_session = true;
        if (shim_is_cancelled()) {
            zend_error_noreturn(E_ERROR, "The task was cancelled while it waited for a session");
        }
        zend_timeout();
    }
    if (!is_past_limit() && EG(current_execute_data) != NULL && EG(exception) == NULL) {
        shim_throw_cancelled();
    }
    errno = EINTR;
    return -1;
}

/* Requests that are parked while they wait for a lock, each on its own stack. */
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
    bool goes_on = shim_park_briefly(pause);
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

/* ---- locks that requests of this worker hold ---- */

/* By descriptor: closing one releases its lock, and the number may then belong to another file or request. */
static __thread struct {
    struct {
        int descriptor;
        const shim_fiber *holder;
    } *list;
    uint32_t count;
    uint32_t room;
} locks;

void shim_lock_strike(int descriptor)
{
    for (uint32_t i = 0; i < locks.count; i++) {
        if (locks.list[i].descriptor == descriptor) {
            locks.list[i] = locks.list[--locks.count];
            return;
        }
    }
}

static void note_lock(int descriptor, const shim_fiber *holder)
{
    shim_lock_strike(descriptor);
    if (locks.count == locks.room) {
        uint32_t room = locks.room > 0 ? 2 * locks.room : 16;
        void *larger = realloc(locks.list, room * sizeof(*locks.list));
        if (larger == NULL) {
            return;
        }
        locks.list = larger;
        locks.room = room;
    }
    locks.list[locks.count].descriptor = descriptor;
    locks.list[locks.count++].holder = holder;
}

void shim_locks_end(const shim_fiber *holder, bool give_back)
{
    for (uint32_t i = locks.count; i > 0; i--) {
        if (locks.list[i - 1].holder != holder) {
            continue;
        }
        if (give_back) {
            (void)LIBC(flock)(locks.list[i - 1].descriptor, LOCK_UN);
        }
        locks.list[i - 1] = locks.list[--locks.count];
    }
}

void shim_locks_stop(void)
{
    free(locks.list);
    locks.list = NULL;
    locks.count = locks.room = 0;
}

/* Whether another request of this thread holds a lock on the same file. Blocking the thread would keep that request
 * from going on. */
static bool is_held_beside(int descriptor)
{
    struct stat wanted, held;
    if (fstat(descriptor, &wanted) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < locks.count; i++) {
        if (locks.list[i].holder != shim_running && fstat(locks.list[i].descriptor, &held) == 0 &&
            held.st_dev == wanted.st_dev && held.st_ino == wanted.st_ino) {
            return true;
        }
    }
    return false;
}

static int refuse(void)
{
    static const char why[] = "Lock is held by a request that is suspended on the same thread";
    if (shim_waits_for_session()) {
        /* It would go on without the lock. */
        shim_current->lost_session = true;
        zend_error_noreturn(E_ERROR, why);
    }
    if (EG(current_execute_data) != NULL) {
        zend_throw_error(NULL, why);
    }
    errno = EDEADLK;
    return -1;
}

/* Blocks the thread. Callers that restart an interrupted wait do not see interruptions before the time limit. */
static int flock_here(int descriptor, int operation)
{
    int result = LIBC(flock)(descriptor, operation | LOCK_NB);
    if (result == 0 || errno != EWOULDBLOCK) {
        return result;
    }
    if (shim_is_over()) {
        /* Nothing would interrupt the wait any more. */
        return shim_give_up();
    }
    if (is_held_beside(descriptor)) {
        return refuse();
    }
    shim_execution_timer_insists(true);
    do {
        result = LIBC(flock)(descriptor, operation);
    } while (result != 0 && errno == EINTR && !shim_is_over());
    int error = errno;
    shim_execution_timer_insists(false);
    errno = error;
    return result != 0 && error == EINTR ? shim_give_up() : result;
}

static int wait_for_file(int descriptor, int operation)
{
    if (shim_current == NULL || (operation & LOCK_NB) != 0 || (operation & LOCK_UN) != 0) {
        return LIBC(flock)(descriptor, operation);
    }
    if (!shim_fiber_may_park() || is_past_limit()) {
        return flock_here(descriptor, operation);
    }
    int64_t pause = 0;
    for (;;) {
        int result = LIBC(flock)(descriptor, operation | LOCK_NB);
        if (result == 0 || errno != EWOULDBLOCK) {
            return result;
        }
        /* A task that was cancelled may have a lock that is free, but waits for none. */
        if (shim_is_over()) {
            return shim_give_up();
        }
        if (!pause_before_lock(descriptor, &pause)) {
            return flock_here(descriptor, operation);
        }
    }
}

int shim_lock_file(int descriptor, int operation)
{
    const int result = wait_for_file(descriptor, operation);
    if (result == 0 && shim_running != NULL) {
        if ((operation & LOCK_UN) != 0) {
            shim_lock_strike(descriptor);
        } else {
            note_lock(descriptor, shim_running);
        }
    }
    return result;
}

/* Blocks the thread; the caller handles interruptions, and restarts the wait or does not. */
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
    if (!shim_fiber_may_park() || shim_is_over()) {
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
        if (shim_is_over()) {
            errno = EINTR;
            return -1;
        }
    }
}
