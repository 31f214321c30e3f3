/* The server's signals, and the thread that receives them.
 *
 * The default action of most signals ends the process. All signals that a process could send, and that have no meaning
 * for svc, are blocked on all threads together with the four that control the server, and one thread receives them.
 * Not blocked are the signals that the processor raises (SIGSEGV and others), that an operator sends to get a core dump
 * (SIGABRT), that stop and continue at a terminal (SIGTSTP, SIGCONT), and that the system ignores. PHP threads
 * unblock the signal of PHP's time limit and that of an alarm for themselves. Signals that a request sends to its own
 * process do not arrive here (php/libc/own_signals.c). */
#include "compat.h"
#include "php/libc/libc.h"
#include "php/process/process.h"
#include "shim.h"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void blocked_signals(sigset_t *set)
{
    static const int left[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP,  SIGSYS, SIGABRT,
                               SIGTSTP, SIGCONT, SIGPIPE, SIGXFSZ, SIGWINCH, SIGURG};
    sigfillset(set);
    for (size_t i = 0; i < SHIM_COUNT(left); i++) {
        sigdelset(set, left[i]);
    }
}

/* A child starts with an empty mask: it has no thread that waits for signals. */
static void unblock_in_child(void)
{
    sigset_t set;
    blocked_signals(&set);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* libc uses two signals internally, which no mask blocks, and installs their handlers on first use. */
static void ignore_signals_of_libc(void)
{
    for (int number = __SIGRTMIN; number < SIGRTMIN; number++) {
        shim_signal_handle_by(number, SIG_IGN);
    }
}

void shim_signals_block(void)
{
    sigset_t set;
    blocked_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    /* A write beyond RLIMIT_FSIZE reports EFBIG. */
    signal(SIGXFSZ, SIG_IGN);
    ignore_signals_of_libc();
    pthread_atfork(NULL, NULL, unblock_in_child);
}

int shim_signals_wait(uint32_t milliseconds, int *sender)
{
    sigset_t set;
    siginfo_t info = {0};
    const struct timespec time = {.tv_sec = milliseconds / 1000, .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    blocked_signals(&set);
    const int number = milliseconds > 0 ? sigtimedwait(&set, &info, &time) : sigwaitinfo(&set, &info);
    if (number == SIGCHLD) {
        shim_children_collect();
        return 0;
    }
    *sender = info.si_code <= 0 ? info.si_pid : 0;
    return number > 0 ? number : 0;
}

int shim_signals_stop_descriptor(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGQUIT);
    sigaddset(&set, SIGTERM);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}
