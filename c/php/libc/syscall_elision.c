/* System calls that PHP makes for every request although their result is known in advance.
 *
 * For each request, Zend installs a handler that is already installed, unblocks a signal that is not blocked, and asks
 * for the process ID. On a thread that runs PHP, the executable's definitions answer these calls without the kernel,
 * and pass all others on. execution_timer.c does the same for the timer, php/opcache/lock.c for a file that no other
 * process uses. */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

/* ---- the signal of the execution timer ---- */

static struct sigaction installed;
static int is_installed;
static __thread bool is_unblocked;

int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    if (number != SIGRTMIN && shim_is_in_request()) {
        return shim_own_sigaction(number, action, old);
    }
    if (number == SIGRTMIN && action == NULL) {
        /* Zend's handler passes signals of other timers on to the previous handler. A thread that installs it later
         * than another would otherwise get Zend's own handler as the previous one. */
        if (old != NULL) {
            *old = (struct sigaction){.sa_handler = SIG_DFL};
        }
        return 0;
    }
    if (shim_current == NULL || number != SIGRTMIN) {
        return NEXT(sigaction)(number, action, old);
    }
    const bool known = __atomic_load_n(&is_installed, __ATOMIC_ACQUIRE);
    if (known && action->sa_sigaction == installed.sa_sigaction) {
        if (old != NULL) {
            *old = installed;
        }
        return 0;
    }
    if (known && shim_is_in_request()) {
        /* A handler of a script. */
        return shim_own_sigaction(number, action, old);
    }
    int result = NEXT(sigaction)(number, action, old);
    /* All PHP threads install the same handler; the first one records it. */
    int expected = 0;
    static int writing;
    if (result == 0 &&
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

/* PHP unblocks the signal with either of the two functions. */
static int change_mask(int (*real)(int, const sigset_t *, sigset_t *), int how, const sigset_t *set, sigset_t *old)
{
    bool unblocks = shim_current != NULL && how == SIG_UNBLOCK && set != NULL && old == NULL && is_rtmin_only(set);
    if (unblocks && is_unblocked) {
        return 0;
    }
    int result = shim_is_in_request() ? shim_own_mask(real, how, set, old) : real(how, set, old);
    if (set != NULL) {
        is_unblocked = unblocks && result == 0;
    }
    return result;
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    return change_mask(NEXT(pthread_sigmask), how, set, old);
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    return change_mask(NEXT(sigprocmask), how, set, old);
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
        number = NEXT(getpid)();
        __atomic_store_n(&process, number, __ATOMIC_RELAXED);
    }
    return number;
}

void shim_syscall_elision_install(void)
{
    pthread_atfork(NULL, NULL, forget_process);
}
