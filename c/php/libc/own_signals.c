/* The signals of a request: to its script, the request is the process.
 *
 * The kernel keeps signal dispositions per process, and the default action of most signals ends it. A script that sends
 * itself a signal (posix_kill(getmypid(), …), pcntl_alarm()), installs a handler (pcntl_signal()) or resets one when it
 * ends affects one process of php-fpm; here, it would affect every request. On a thread that runs PHP, the functions
 * below therefore take precedence over those of libc. Dispositions and masks are recorded for the thread and never
 * reach the kernel. A signal that a request sends to its process never leaves its thread: kill() performs the signal's
 * action there. A handler runs at once, as POSIX requires. Where the default action would end the process, the request
 * ends as after a fatal error.
 *
 * Signals from outside, which are blocked on all threads (php/process/signals.c), do not reach requests.
 *
 * Ownership: handlers belong to the thread, like pcntl's table; the mask, pending signals and the alarm belong to the
 * request, and so does the signal that ends it (context.h). */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Signal sets in the kernel's form. */
typedef uint64_t signals;

enum { SIGNAL_MAX = 64 };

static const int64_t SECOND = 1000000000;

static inline signals bit(int number)
{
    return UINT64_C(1) << (number - 1);
}

static signals signals_of(const sigset_t *set)
{
    signals bits;
    memcpy(&bits, set, sizeof(bits));
    return bits;
}

static void write_signals(signals bits, sigset_t *set)
{
    sigemptyset(set);
    memcpy(set, &bits, sizeof(bits));
}

/* Returns the signals whose mask changes do reach the kernel: that of PHP's time limit, and one that libraries block
 * while they write, and that svc ignores. */
static signals passed_on(void)
{
    return bit(SIGRTMIN) | bit(SIGPIPE);
}

/* Also read and written by the handler of the alarm. */
static __thread struct {
    /* Indexed by number; allocated when the first one is set. */
    struct sigaction *actions;
    volatile signals blocked;
    volatile signals pending;
    bool has_timer;
    timer_t timer;
    /* The time at which the alarm goes off; 0 if there is none. */
    volatile int64_t alarm_at;
} own;

/* ---- the action of a signal ---- */

static bool stops_by_default(int number)
{
    return number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

static bool is_ignored_by_default(int number)
{
    return number == SIGCHLD || number == SIGURG || number == SIGWINCH || number == SIGCONT;
}

static const struct sigaction *action_of(int number)
{
    static const struct sigaction none;
    return own.actions != NULL ? &own.actions[number] : &none;
}

/* Async-signal-safe. */
static void deliver(int number, siginfo_t *info, void *place)
{
    const struct sigaction *action = action_of(number);
    if (number != SIGKILL && action->sa_handler == SIG_IGN) {
        return;
    }
    if (number != SIGKILL && action->sa_handler != SIG_DFL) {
        const struct sigaction called = *action;
        if ((called.sa_flags & SA_RESETHAND) != 0) {
            own.actions[number].sa_handler = SIG_DFL;
        }
        if ((called.sa_flags & SA_SIGINFO) != 0) {
            called.sa_sigaction(number, info, place);
        } else {
            called.sa_handler(number);
        }
        return;
    }
    if (!is_ignored_by_default(number) && !stops_by_default(number)) {
        shim_current->ending_signal = number;
        zend_atomic_bool_store_ex(&EG(vm_interrupt), true);
    }
}

/* Async-signal-safe. */
static void arrive(int number, siginfo_t *info, void *place)
{
    if (number != SIGKILL && (own.blocked & bit(number)) != 0) {
        (void)__atomic_fetch_or(&own.pending, bit(number), __ATOMIC_RELAXED);
    } else {
        deliver(number, info, place);
    }
}

static siginfo_t from_itself(int number)
{
    siginfo_t info = {.si_signo = number, .si_code = SI_USER};
    info.si_pid = shim_process_id();
    info.si_uid = getuid();
    return info;
}

static int first_of(signals set)
{
    return set != 0 ? __builtin_ctzll(set) + 1 : 0;
}

static int take_pending(signals set)
{
    const int number = first_of(own.pending & set);
    if (number > 0) {
        (void)__atomic_fetch_and(&own.pending, ~bit(number), __ATOMIC_RELAXED);
    }
    return number;
}

static void deliver_pending(void)
{
    for (int number = take_pending(~own.blocked); number > 0; number = take_pending(~own.blocked)) {
        siginfo_t info = from_itself(number);
        deliver(number, &info, NULL);
    }
}

int shim_own_signal_take(void)
{
    const int number = shim_current != NULL ? shim_current->ending_signal : 0;
    if (number > 0) {
        shim_current->ending_signal = 0;
    }
    return number;
}

/* ---- dispositions and masks ---- */

int shim_own_sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    if (number < 1 || number > SIGNAL_MAX || (action != NULL && (number == SIGKILL || number == SIGSTOP))) {
        errno = EINVAL;
        return -1;
    }
    if (old != NULL) {
        *old = *action_of(number);
    }
    if (action == NULL) {
        return 0;
    }
    if (own.actions == NULL) {
        struct sigaction *actions = calloc(SIGNAL_MAX + 1, sizeof(*actions));
        if (actions == NULL) {
            errno = ENOMEM;
            return -1;
        }
        own.actions = actions;
    }
    own.actions[number] = *action;
    if (action->sa_handler == SIG_IGN) {
        (void)__atomic_fetch_and(&own.pending, ~bit(number), __ATOMIC_RELAXED);
    }
    return 0;
}

int shim_own_mask(int (*real)(int, const sigset_t *, sigset_t *), int how, const sigset_t *set, sigset_t *old)
{
    sigset_t room;
    int result = real(SIG_BLOCK, NULL, &room);
    if (result != 0) {
        return result;
    }
    const signals kernel = signals_of(&room), passed = passed_on();
    const signals before = (kernel & passed) | (own.blocked & ~passed);
    if (old != NULL) {
        write_signals(before, old);
    }
    if (set == NULL) {
        return 0;
    }
    const signals change = signals_of(set) & ~(bit(SIGKILL) | bit(SIGSTOP));
    const signals after = how == SIG_BLOCK ? before | change : how == SIG_UNBLOCK ? before & ~change : change;
    if (how != SIG_BLOCK && how != SIG_UNBLOCK && how != SIG_SETMASK) {
        return real(how, set, NULL);
    }
    if (((before ^ after) & passed) != 0) {
        write_signals((kernel & ~passed) | (after & passed), &room);
        result = real(SIG_SETMASK, &room, NULL);
    }
    own.blocked = after & ~passed;
    deliver_pending();
    return result;
}

/* Only signals that the request has sent itself can arrive. Replaces libc's function. */
int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
    if (!shim_is_in_request()) {
        return NEXT(sigtimedwait)(set, info, timeout);
    }
    sigset_t none;
    sigemptyset(&none);
    int number = take_pending(signals_of(set));
    if (number == 0) {
        /* The alarm and the time limit interrupt it. */
        const int result = NEXT(sigtimedwait)(&none, NULL, timeout);
        number = take_pending(signals_of(set));
        if (number == 0) {
            return result;
        }
    }
    if (info != NULL) {
        *info = from_itself(number);
    }
    return number;
}

/* Replaces libc's function. */
int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
    return sigtimedwait(set, info, NULL);
}

/* ---- sending ---- */

static bool is_own_process(pid_t pid)
{
    const int error = errno;
    /* The kernel takes the ID of any thread for its process. */
    const bool is_own = pid > 0 && syscall(SYS_tgkill, shim_process_id(), pid, 0) == 0;
    errno = error;
    return is_own;
}

/* Replaces libc's function; called by posix_kill() and proc_terminate(). */
int kill(pid_t pid, int number)
{
    if (!shim_is_in_request() || number < 1 || number > SIGNAL_MAX) {
        return NEXT(kill)(pid, number);
    }
    const bool is_group = pid == 0 || (pid < -1 && -pid == getpgrp());
    if (!is_group && !is_own_process(pid)) {
        return NEXT(kill)(pid, number);
    }
    /* The group has other processes than the request, and a request cannot be stopped and continued. */
    if (is_group || (stops_by_default(number) && (number == SIGSTOP || action_of(number)->sa_handler == SIG_DFL))) {
        errno = EPERM;
        return -1;
    }
    siginfo_t info = from_itself(number);
    arrive(number, &info, NULL);
    return 0;
}

/* ---- the alarm ---- */

static void on_alarm(int number, siginfo_t *info, void *place)
{
    /* Other processes may send the signal, too, and a timer that was reset may have sent it before. */
    const bool is_ours = info->si_code == SI_TIMER && info->si_value.sival_ptr == &own;
    if (!is_ours || own.alarm_at == 0 || own.alarm_at > shim_now() || shim_current == NULL) {
        return;
    }
    own.alarm_at = 0;
    arrive(number, info, place);
}

static void allow_alarm(bool is_allowed)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    (void)NEXT(pthread_sigmask)(is_allowed ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
}

/* Moves the alarm; 0 removes it. */
static void set_alarm(int64_t at)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM, .sigev_value = {.sival_ptr = &own}};
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    if (!own.has_timer) {
        own.has_timer = at > 0 && NEXT(timer_create)(CLOCK_MONOTONIC, &event, &own.timer) == 0;
    }
    if (own.has_timer) {
        const struct itimerspec then = {.it_value = {.tv_sec = at / SECOND, .tv_nsec = at % SECOND}};
        allow_alarm(false);
        own.alarm_at = at;
        (void)NEXT(timer_settime)(own.timer, TIMER_ABSTIME, &then, NULL);
        allow_alarm(at > 0);
    }
}

/* Replaces libc's function. */
unsigned alarm(unsigned seconds)
{
    if (!shim_is_in_request()) {
        return NEXT(alarm)(seconds);
    }
    const int64_t now = shim_now(), before = own.alarm_at;
    const unsigned left = before > now ? (unsigned)((before - now + SECOND - 1) / SECOND) : before > 0;
    if (before > 0 || seconds > 0) {
        set_alarm(seconds > 0 ? now + seconds * SECOND : 0);
    }
    return left;
}

/* ---- requests that share a thread, and their end ---- */

void shim_own_signals_end(void)
{
    if (own.alarm_at > 0) {
        set_alarm(0);
    }
    own.blocked = 0;
    own.pending = 0;
}

void shim_own_signals_suspend(shim_own_signals_state *state)
{
    *state = (shim_own_signals_state){.alarm_at = own.alarm_at, .blocked = own.blocked, .pending = own.pending};
    shim_own_signals_end();
}

void shim_own_signals_resume(const shim_own_signals_state *state)
{
    own.blocked = state->blocked;
    own.pending = state->pending;
    if (state->alarm_at > 0) {
        set_alarm(state->alarm_at);
    }
}

void shim_own_signals_become(void)
{
    own.has_timer = false;
    own.alarm_at = 0;
    for (int number = 1; number <= SIGNAL_MAX; number++) {
        /* The signals whose disposition in the server is not the default. */
        const bool is_ours = number == SIGALRM || number == SIGXFSZ;
        if (is_ours || action_of(number)->sa_handler != SIG_DFL) {
            (void)NEXT(sigaction)(number, action_of(number), NULL);
        }
    }
    sigset_t set;
    write_signals(own.blocked, &set);
    (void)NEXT(pthread_sigmask)(SIG_SETMASK, &set, NULL);
}

/* ---- threads and process ---- */

void shim_own_signals_thread_stop(void)
{
    if (own.has_timer) {
        (void)NEXT(timer_delete)(own.timer);
    }
    free(own.actions);
    memset(&own, 0, sizeof(own));
}

void shim_own_signals_install(void)
{
    struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigemptyset(&action.sa_mask);
    (void)NEXT(sigaction)(SIGALRM, &action, NULL);
}

void shim_signal_handle_by(int number, void (*handler)(int))
{
    const struct {
        void (*handler)(int);
        uintptr_t flags;
        void *restorer;
        uint64_t mask;
    } action = {.handler = handler};
    (void)syscall(SYS_rt_sigaction, number, &action, NULL, sizeof(action.mask));
}

void shim_signal_pass_on(const struct sigaction *former, int number, siginfo_t *info, void *place)
{
    if ((former->sa_flags & SA_SIGINFO) != 0 && former->sa_sigaction != NULL) {
        former->sa_sigaction(number, info, place);
    }
    shim_signal_handle_by(number, SIG_DFL);
    /* A fault occurs again by itself; a signal must be sent again. */
    if (info->si_code <= 0) {
        (void)syscall(SYS_tgkill, shim_process_id(), syscall(SYS_gettid), number);
    }
}
