/* Locks on files that PHP waits for: flock(), and the lock commands of fcntl() (descriptors.c).
 *
 * In a request that can wait without blocking its thread, they try, pause and try again: a session file that is locked
 * by another request of the same thread is released only when that request continues. Otherwise they block as usual,
 * except for a lock held by a request of the same thread, which would never be released. Waiting for a lock ends at the
 * time limit of the request, even where the session extension would start waiting again. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/files/files.h"
#include "php/libc/libc.h"
#include "worker/connections/owners/owners.h"
#include "worker/stack/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
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

/* Whether the session extension is waiting: in one of its functions, or on its own while the current frame is not a
 * script's. */
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

/* Gives up waiting, because the request's time limit has expired or its task was cancelled: reports an interrupted wait
 * to the caller. At the time limit, the script ends when that call returns; a cancelled task gets an exception, so that
 * it does not continue without the lock. The session extension, however, would start waiting again, and after any other
 * error it would continue, so its script is ended here. */
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

/* Parked requests that wait for a lock, each on its own stack. */
typedef struct lock_wait {
    int descriptor;
    shim_fiber *fiber;
    shim_file_lock lock;
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

/* Returns false if the descriptor is not open. */
static bool identify(int descriptor, shim_file_lock *lock)
{
    struct stat file;
    if (fstat(descriptor, &file) != 0) {
        return false;
    }
    *lock = (shim_file_lock){.device = file.st_dev, .inode = file.st_ino};
    return true;
}

static bool is_same(const shim_file_lock *one, const shim_file_lock *other)
{
    return one->device == other->device && one->inode == other->inode;
}

/* Wakes the requests of this thread that wait for a lock which another one is about to release: they try again. */
static void wake_waiters(int descriptor)
{
    shim_file_lock lock;
    if (lock_waits == NULL || !identify(descriptor, &lock)) {
        return;
    }
    for (const lock_wait *wait = lock_waits; wait != NULL; wait = wait->next) {
        if (wait->fiber->phase == SHIM_PHASE_PARKED && is_same(&wait->lock, &lock)) {
            shim_wake(wait->fiber, SHIM_WOKEN_BY_TURN, 0);
        }
    }
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
            wake_waiters(descriptor);
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
            wake_waiters(locks.list[i - 1].descriptor);
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

static bool holds_lock(const shim_fiber *fiber, const shim_file_lock *lock)
{
    for (uint32_t i = 0; i < locks.count; i++) {
        shim_file_lock held;
        if ((fiber == NULL || locks.list[i].holder == fiber) && identify(locks.list[i].descriptor, &held) && is_same(&held, lock)) {
            return true;
        }
    }
    return false;
}

/* Whether another request of this thread holds a lock on the same file. Blocking the thread would prevent that request
 * from continuing. */
static bool is_held_beside(int descriptor)
{
    shim_file_lock wanted, held;
    if (!identify(descriptor, &wanted)) {
        return false;
    }
    for (uint32_t i = 0; i < locks.count; i++) {
        if (locks.list[i].holder != shim_running && identify(locks.list[i].descriptor, &held) && is_same(&held, &wanted)) {
            return true;
        }
    }
    return false;
}

/* ---- locks that other threads hold ---- */

/* A request of any thread that waits for a lock which its own thread does not hold. */
typedef struct outside_wait {
    shim_file_lock lock;
    shim_completer *completer;
    struct outside_wait *next;
} outside_wait;
static pthread_mutex_t outside_mutex = PTHREAD_MUTEX_INITIALIZER;
static outside_wait *outside_waits;
static unsigned outside_count;

/* Returns NULL if the request cannot be notified. */
static outside_wait *wait_outside(const shim_file_lock *lock, shim_completion **completion)
{
    outside_wait *wait = holds_lock(NULL, lock) ? NULL : malloc(sizeof(*wait));
    if (wait == NULL || !shim_host.completion.make(completion, &wait->completer)) {
        *completion = NULL;
        free(wait);
        return NULL;
    }
    wait->lock = *lock;
    pthread_mutex_lock(&outside_mutex);
    wait->next = outside_waits;
    outside_waits = wait;
    /* Relaxed: a thread that misses it lets the waiter try again after its pause. */
    __atomic_fetch_add(&outside_count, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&outside_mutex);
    return wait;
}

/* Removes the waits for the lock, or the single wait that is given up, and completes them. That one may already have
 * been completed and freed: its address may belong to a new one, which then tries once more than necessary. */
static void end_outside(const shim_file_lock *lock, const outside_wait *one)
{
    pthread_mutex_lock(&outside_mutex);
    for (outside_wait **link = &outside_waits; *link != NULL;) {
        outside_wait *wait = *link;
        if (one != NULL ? wait != one : !is_same(&wait->lock, lock)) {
            link = &wait->next;
            continue;
        }
        *link = wait->next;
        __atomic_fetch_sub(&outside_count, 1, __ATOMIC_RELAXED);
        shim_host.completion.complete(wait->completer);
        free(wait);
    }
    pthread_mutex_unlock(&outside_mutex);
}

bool shim_lock_is_noted(int descriptor, shim_file_lock *lock)
{
    if (__atomic_load_n(&outside_count, __ATOMIC_RELAXED) == 0) {
        return false;
    }
    uint32_t i = 0;
    while (i < locks.count && locks.list[i].descriptor != descriptor) {
        i++;
    }
    return i < locks.count && identify(descriptor, lock);
}

void shim_lock_tell(const shim_file_lock *lock)
{
    const int error = errno;
    end_outside(lock, NULL);
    errno = error;
}

static shim_turn pause_until_told(const shim_file_lock *lock, bool may_be_refused, int64_t *pause)
{
    shim_completion *completion = NULL;
    outside_wait *wait = wait_outside(lock, &completion);
    const shim_turn turn = shim_turn_pause_at_lock(lock, may_be_refused, pause, completion);
    if (wait != NULL) {
        end_outside(lock, wait);
        shim_host.completion.drop(completion);
    }
    return turn;
}

static shim_turn pause_before_lock(int descriptor, bool may_be_refused, int64_t *pause)
{
    lock_wait own = {.descriptor = descriptor, .fiber = shim_running, .next = lock_waits};
    if (!identify(descriptor, &own.lock)) {
        return SHIM_TURN_STUCK;
    }
    own.lock.is_session = shim_waits_for_session();
    if (own.next != NULL) {
        own.next->before = &own;
    }
    lock_waits = &own;
    const shim_turn turn = pause_until_told(&own.lock, may_be_refused, pause);
    if (own.next != NULL) {
        own.next->before = own.before;
    }
    if (own.before != NULL) {
        own.before->next = own.next;
    } else {
        lock_waits = own.next;
    }
    return turn;
}

static int refuse(void)
{
    static const char why[] = "Lock is held by a request that is suspended on the same thread";
    if (shim_waits_for_session()) {
        /* The session extension would continue without the lock. */
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
        /* The wait could no longer be interrupted. */
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

/* Whether the wait may be refused. The session extension would continue without its lock. A request that owns no
 * connection blocks no other request. */
static bool may_be_refused(void)
{
    return shim_running->has_owned && EG(current_execute_data) != NULL && EG(exception) == NULL && !shim_waits_for_session();
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
        /* A cancelled task may take a free lock, but waits for none. */
        if (shim_is_over()) {
            return shim_give_up();
        }
        switch (pause_before_lock(descriptor, may_be_refused(), &pause)) {
        case SHIM_TURN_STUCK:
            return flock_here(descriptor, operation);
        case SHIM_TURN_REFUSED:
            shim_turn_refusal_throw("Lock is held by a request that itself waits for a connection of this request");
            errno = EDEADLK;
            return -1;
        default:
            break;
        }
    }
}

int shim_lock_file(int descriptor, int operation)
{
    shim_file_lock lock;
    const bool is_told = (operation & LOCK_UN) != 0 && shim_lock_is_noted(descriptor, &lock);
    const int result = wait_for_file(descriptor, operation);
    if (is_told) {
        shim_lock_tell(&lock);
    }
    if (result == 0 && shim_running != NULL) {
        if ((operation & LOCK_UN) != 0) {
            /* The kernel has already released it; the waiting requests try again as soon as this one waits. */
            shim_lock_strike(descriptor);
        } else {
            note_lock(descriptor, shim_running);
        }
    }
    return result;
}

/* Blocks the thread; the caller handles interruptions, and may restart the wait. */
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
        if (pause_before_lock(descriptor, false, &pause) == SHIM_TURN_STUCK) {
            return lock_record_here(descriptor, command, lock, call);
        }
        if (shim_is_over()) {
            errno = EINTR;
            return -1;
        }
    }
}

/* The mutex may have an owner that does not exist in the child, and the waits belong to the parent's threads. */
static void forget_outside(void)
{
    __atomic_store_n(&outside_count, 0, __ATOMIC_RELAXED);
}

void shim_locks_install(void)
{
    pthread_atfork(NULL, NULL, forget_outside);
    shim_turns_hold_lock = holds_lock;
}
