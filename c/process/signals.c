/* The signals that control the server, which one thread waits for. */
#include "compat.h"
#include "shim.h"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>

static void control_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

/* A child starts with an empty mask: it has no thread that waits for signals. */
static void unblock_in_child(void)
{
    sigset_t set;
    control_signals(&set);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void shim_signals_block(void)
{
    sigset_t set;
    control_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    pthread_atfork(NULL, NULL, unblock_in_child);
}

int shim_signals_wait(uint32_t milliseconds)
{
    sigset_t set;
    const struct timespec time = {.tv_sec = milliseconds / 1000, .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    control_signals(&set);
    const int number = milliseconds > 0 ? sigtimedwait(&set, NULL, &time) : sigwaitinfo(&set, NULL);
    return number > 0 ? number : 0;
}

int shim_signals_stop_descriptor(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}
