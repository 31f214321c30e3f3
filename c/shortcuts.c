/* System calls that PHP makes for every request and whose answer is known.
 *
 * For each request Zend creates a timer and deletes it again, installs the handler that is installed, unblocks the
 * signal that is not blocked, asks for the process's number, and locks a file that no other process has. On a thread
 * that runs PHP the executable's definitions answer these calls without the kernel; anything else they pass on.
 *
 * A thread keeps one timer from its first request to its end. Arming and disarming it stay as they are. */
#include "internal.h"
#include "state.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

DECLARE_LIBC(timer_create);
DECLARE_LIBC(timer_delete);
DECLARE_LIBC(timer_settime);
DECLARE_LIBC(sigaction);
DECLARE_LIBC(pthread_sigmask);
DECLARE_LIBC(memfd_create);
DECLARE_LIBC(getpid);

/* ---- the execution timer ---- */

static __thread struct {
    /* This thread runs PHP; its timer may be created before its first request. */
    bool wanted;
    bool exists;
    timer_t timer;
    void *value;
    /* When it fires, on the monotonic clock in nanoseconds; 0: it is not armed. */
    int64_t deadline;
} kept;

static bool is_execution_timer(clockid_t clock, const struct sigevent *event)
{
    return kept.wanted && clock == CLOCK_BOOTTIME && event != NULL && event->sigev_notify == SIGEV_THREAD_ID &&
           event->sigev_signo == SIGRTMIN;
}

int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
    if (!is_execution_timer(clock, event)) {
        return LIBC(timer_create)(clock, event, timer);
    }
    if (kept.exists && kept.value == event->sigev_value.sival_ptr) {
        *timer = kept.timer;
        return 0;
    }
    int result = LIBC(timer_create)(clock, event, timer);
    if (result == 0 && !kept.exists) {
        kept.exists = true;
        kept.timer = *timer;
        kept.value = event->sigev_value.sival_ptr;
    }
    return result;
}

int timer_delete(timer_t timer)
{
    if (kept.exists && timer == kept.timer) {
        /* PHP has disarmed it (zend_unset_timeout), or it has fired. */
        return 0;
    }
    return LIBC(timer_delete)(timer);
}

static int64_t now_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t nanoseconds(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

int timer_settime(timer_t timer, int flags, const struct itimerspec *value, struct itimerspec *old)
{
    if (kept.exists && timer == kept.timer && value != NULL) {
        int64_t wait = nanoseconds(&value->it_value);
        kept.deadline = wait > 0 && flags == 0 ? now_nanoseconds() + wait : 0;
    }
    return LIBC(timer_settime)(timer, flags, value, old);
}

/* Arms the timer, or disarms it with 0. */
static void arm(int64_t deadline)
{
    int64_t wait = 0;
    if (deadline > 0) {
        wait = deadline - now_nanoseconds();
        wait = wait > 0 ? wait : 1;
    }
    const struct itimerspec later = {.it_value = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000}};
    LIBC(timer_settime)(kept.timer, 0, &later, NULL);
    kept.deadline = deadline;
}

void shim_execution_timer_rearm(int seconds)
{
    if (kept.exists && seconds > 0) {
        const struct itimerspec later = {.it_value = {.tv_sec = seconds}};
        timer_settime(kept.timer, 0, &later, NULL);
    }
}

/* ---- the execution timer of a request that is suspended ---- */

void shim_timer_suspend(shim_timer_state *state)
{
    *state = (shim_timer_state){0};
    if (kept.exists && kept.deadline > 0) {
        state->deadline = kept.deadline;
        arm(0);
    }
    if (zend_atomic_bool_exchange_ex(&EG(timed_out), false)) {
        state->timed_out = true;
    }
}

void shim_timer_resume(const shim_timer_state *state)
{
    if (kept.exists && state->deadline > 0) {
        arm(state->deadline);
    }
    if (state->timed_out) {
        zend_atomic_bool_store_ex(&EG(timed_out), true);
        zend_atomic_bool_store_ex(&EG(vm_interrupt), true);
    }
}

int64_t shim_timer_deadline(void)
{
    return kept.exists ? kept.deadline : 0;
}

void shim_shortcuts_thread_start(void)
{
    kept.wanted = true;
}

void shim_shortcuts_thread_stop(void)
{
    kept.wanted = false;
    if (kept.exists) {
        LIBC(timer_delete)(kept.timer);
        kept.exists = false;
    }
}

/* ---- its signal ---- */

static struct sigaction installed;
static int is_installed;
static __thread bool is_unblocked;

int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    if (shim_current == NULL || number != SIGRTMIN) {
        return LIBC(sigaction)(number, action, old);
    }
    bool known = __atomic_load_n(&is_installed, __ATOMIC_ACQUIRE);
    bool same = action == NULL || action->sa_sigaction == installed.sa_sigaction;
    if (known && same) {
        if (old != NULL) {
            *old = installed;
        }
        return 0;
    }
    int result = LIBC(sigaction)(number, action, old);
    /* Every PHP thread installs the same handler: whichever is first writes it down. */
    int expected = 0;
    static int writing;
    if (result == 0 && action != NULL &&
        __atomic_compare_exchange_n(&writing, &expected, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        installed = *action;
        __atomic_store_n(&is_installed, 1, __ATOMIC_RELEASE);
    }
    return result;
}

static bool is_rtmin_only(const sigset_t *set)
{
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGRTMIN);
    return memcmp(set, &only, sizeof(uint64_t)) == 0;
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    bool unblocks = shim_current != NULL && how == SIG_UNBLOCK && set != NULL && old == NULL && is_rtmin_only(set);
    if (unblocks && is_unblocked) {
        return 0;
    }
    int result = LIBC(pthread_sigmask)(how, set, old);
    is_unblocked = unblocks && result == 0;
    return result;
}

/* ---- the process ---- */

static pid_t process;

static void forget_process(void)
{
    process = 0;
}

pid_t getpid(void)
{
    pid_t number = __atomic_load_n(&process, __ATOMIC_RELAXED);
    if (number == 0) {
        number = LIBC(getpid)();
        __atomic_store_n(&process, number, __ATOMIC_RELAXED);
    }
    return number;
}

/* ---- OPcache's lock file ---- */

static int opcache_lock = -1;

int memfd_create(const char *name, unsigned int flags)
{
    int descriptor = LIBC(memfd_create)(name, flags);
    if (strcmp(name, "opcache_lock") == 0) {
        opcache_lock = descriptor;
    }
    return descriptor;
}

bool shim_is_opcache_lock(int descriptor)
{
    return descriptor >= 0 && descriptor == opcache_lock;
}

void shim_shortcuts_install(void)
{
    pthread_atfork(NULL, NULL, forget_process);
}
