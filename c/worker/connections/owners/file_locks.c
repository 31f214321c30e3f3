/* Locks on files in worker mode: flock(), the lock commands of fcntl(), and close(), which releases locks.
 *
 * In a request that can wait without blocking its thread, they try, pause and try again: a session file that is locked
 * by another request of the same thread is released only when that request continues. Otherwise they block as in classic
 * mode (php/files/locks.c), except for a lock held by a request of the same thread, which would never be released. */
#include "compat.h"
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
#include <unistd.h>

/* Parked requests that wait for a lock, each on its own stack. */
typedef struct lock_wait {
    int descriptor;
    shim_fiber *fiber;
    shim_file_lock lock;
    LIST_ENTRY(lock_wait) link;
} lock_wait;
static __thread LIST_HEAD(, lock_wait) lock_waits;

bool shim_is_being_locked(int descriptor)
{
    const lock_wait *wait = LIST_FIRST(&lock_waits);
    while (wait != NULL && wait->descriptor != descriptor) {
        wait = LIST_NEXT(wait, link);
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
    if (LIST_EMPTY(&lock_waits) || !identify(descriptor, &lock)) {
        return;
    }
    const lock_wait *wait;
    LIST_FOREACH(wait, &lock_waits, link) {
        if (wait->fiber->phase == SHIM_PHASE_PARKED && is_same(&wait->lock, &lock)) {
            shim_wake(wait->fiber, SHIM_WOKEN_BY_REQUEST, 0);
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

static void remove_lock(int descriptor)
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
    remove_lock(descriptor);
    if (SHIM_RESERVE(locks)) {
        locks.list[locks.count].descriptor = descriptor;
        locks.list[locks.count++].holder = holder;
    }
}

void shim_locks_end(const shim_fiber *holder, bool give_back)
{
    for (uint32_t i = locks.count; i > 0; i--) {
        if (locks.list[i - 1].holder != holder) {
            continue;
        }
        /* A forked child shares the open file, and would unlock it for its parent. */
        if (give_back && !shim_is_child) {
            wake_waiters(locks.list[i - 1].descriptor);
            (void)NEXT(flock)(locks.list[i - 1].descriptor, LOCK_UN);
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
        if ((fiber == NULL || locks.list[i].holder == fiber) && identify(locks.list[i].descriptor, &held) &&
            is_same(&held, lock)) {
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

static bool lock_is_noted(int descriptor, shim_file_lock *lock)
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

static void notify_outside(const shim_file_lock *lock)
{
    const int error = errno;
    end_outside(lock, NULL);
    errno = error;
}

static shim_acquisition pause_until_notified(const shim_file_lock *lock, bool may_be_refused, int64_t *pause)
{
    shim_completion *completion = NULL;
    outside_wait *wait = wait_outside(lock, &completion);
    const shim_acquisition result = shim_file_lock_pause(lock, may_be_refused, pause, completion);
    if (wait != NULL) {
        end_outside(lock, wait);
        shim_host.completion.drop(completion);
    }
    return result;
}

static shim_acquisition pause_before_lock(int descriptor, bool may_be_refused, int64_t *pause)
{
    lock_wait own = {.descriptor = descriptor, .fiber = shim_running};
    if (!identify(descriptor, &own.lock)) {
        return SHIM_ACQUIRE_WOULD_BLOCK;
    }
    own.lock.is_session = shim_waits_for_session();
    LIST_INSERT_HEAD(&lock_waits, &own, link);
    const shim_acquisition result = pause_until_notified(&own.lock, may_be_refused, pause);
    LIST_REMOVE(&own, link);
    return result;
}

/* Whether the thread may block, because no request of the thread has the lock. Otherwise throws, or ends the script. */
static bool may_block(int descriptor)
{
    if (!is_held_beside(descriptor)) {
        return true;
    }
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
    return false;
}

/* Whether the wait may be refused. The session extension would continue without its lock. A request that owns no
 * connection blocks no other request. */
static bool may_be_refused(void)
{
    return shim_running->has_used_connection && EG(current_execute_data) != NULL && EG(exception) == NULL &&
           !shim_waits_for_session();
}

static int wait_for_file(int descriptor, int operation)
{
    if (shim_current == NULL || (operation & LOCK_NB) != 0 || (operation & LOCK_UN) != 0) {
        return NEXT(flock)(descriptor, operation);
    }
    if (!shim_fiber_may_park() || shim_is_past_limit()) {
        return shim_flock_here(descriptor, operation, may_block);
    }
    int64_t pause = 0;
    for (;;) {
        int result = NEXT(flock)(descriptor, operation | LOCK_NB);
        if (result == 0 || errno != EWOULDBLOCK) {
            return result;
        }
        /* A cancelled task may take a free lock, but waits for none. */
        if (shim_is_over()) {
            return shim_give_up();
        }
        switch (pause_before_lock(descriptor, may_be_refused(), &pause)) {
        case SHIM_ACQUIRE_WOULD_BLOCK:
            return shim_flock_here(descriptor, operation, may_block);
        case SHIM_ACQUIRE_DEADLOCK:
            shim_deadlock_throw("Lock is held by a request that itself waits for a connection of this request");
            errno = EDEADLK;
            return -1;
        default:
            break;
        }
    }
}

static int wait_for_lock(int descriptor, int operation)
{
    shim_file_lock lock;
    const bool notifies = (operation & LOCK_UN) != 0 && lock_is_noted(descriptor, &lock);
    const int result = wait_for_file(descriptor, operation);
    if (notifies) {
        notify_outside(&lock);
    }
    if (result == 0 && shim_running != NULL) {
        if ((operation & LOCK_UN) != 0) {
            /* The kernel has already released it; the waiting requests try again as soon as this one waits. */
            remove_lock(descriptor);
        } else {
            note_lock(descriptor, shim_running);
        }
    }
    return result;
}

/* Blocks the thread; the caller handles interruptions, and may restart the wait. */
static int lock_record_here(int descriptor, int command, void *lock, int (*call)(int, int, ...))
{
    shim_execution_timer_set_interrupting(true);
    int result = call(descriptor, command, lock);
    int error = errno;
    shim_execution_timer_set_interrupting(false);
    errno = error;
    return result;
}

static int wait_for_record_lock(int descriptor, int command, void *lock, int (*call)(int, int, ...))
{
    int try = command == F_SETLKW ? F_SETLK : F_OFD_SETLK;
    int64_t pause = 0;
    if (shim_current == NULL || shim_running == NULL) {
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
        if (pause_before_lock(descriptor, false, &pause) == SHIM_ACQUIRE_WOULD_BLOCK) {
            return lock_record_here(descriptor, command, lock, call);
        }
        if (shim_is_over()) {
            errno = EINTR;
            return -1;
        }
    }
}

/* ---- close() ---- */

/* epoll silently drops a closed descriptor, unless a duplicate exists, and the number may be reused for another file
 * immediately. */
int close(int descriptor)
{
    shim_file_lock lock;
    const bool is_lock = lock_is_noted(descriptor, &lock);
    shim_watches_closed(descriptor);
    remove_lock(descriptor);
    shim_socket_closed(descriptor);
    const int result = NEXT(close)(descriptor);
    if (is_lock) {
        notify_outside(&lock);
    }
    return result;
}

/* ---- installation ---- */

/* The mutex may have an owner that does not exist in the child, and the waits belong to the parent's threads. */
static void forget_outside(void)
{
    __atomic_store_n(&outside_count, 0, __ATOMIC_RELAXED);
}

void shim_locks_install(void)
{
    pthread_atfork(NULL, NULL, forget_outside);
    shim_file_lock_is_held = holds_lock;
    shim_wait_hooks.for_lock = wait_for_lock;
    shim_wait_hooks.for_record_lock = wait_for_record_lock;
}
