/* Waiting for processes that a request has started: replacements of waitpid() and related functions, for proc_close(),
 * pclose() and pcntl.
 *
 * The descriptor of a process becomes ready when the process ends, so that a request can wait for it as for any other.
 * A request that has ended stops waiting: its program continues, and is reaped later.
 *
 * A request that waits for any child waits for its own ones. The kernel would return the children of all requests,
 * whose status those would then never receive. */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"
#include "php/process/process.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- one child ---- */

/* Waits without the hook. A status that was collected for the request is returned as the kernel would have returned it. */
static pid_t take(pid_t pid, int *status, int options, struct rusage *usage)
{
    int own = 0;
    pid_t ended = NEXT(wait4)(pid, &own, options, usage);
    if (ended < 0 && errno == ECHILD && pid > 0 && shim_child_collected(pid, &own)) {
        if (usage != NULL) {
            memset(usage, 0, sizeof(*usage));
        }
        ended = pid;
    } else if (ended > 0 && !WIFSTOPPED(own) && !WIFCONTINUED(own)) {
        shim_child_taken(ended);
    }
    if (ended > 0 && status != NULL) {
        *status = own;
    }
    return ended;
}

static pid_t wait_in_fiber(pid_t pid, int *status, int options)
{
    const pid_t ended = take(pid, status, options | WNOHANG, NULL);
    if (ended != 0) {
        return ended;
    }
    const int descriptor = (int)syscall(SYS_pidfd_open, pid, 0);
    const shim_process_waited waited = shim_wait_hooks.for_process(descriptor);
    if (descriptor >= 0) {
        NEXT(close)(descriptor);
    }
    if (waited == SHIM_PROCESS_GIVE_UP) {
        shim_child_abandon(pid);
        errno = ECHILD;
        return -1;
    }
    return take(pid, status, options, NULL);
}

/* ---- any child ---- */

static bool is_any(pid_t pid)
{
    return pid <= 0 && shim_is_in_request();
}

/* A call that checks one child without waiting: returns its ID if there is a status to report, 0 if not yet, and -1 if
 * it does not exist. */
typedef struct question {
    pid_t (*ask)(const struct question *question, pid_t pid);
    int options;
    int *status;
    struct rusage *usage;
    siginfo_t *info;
} question;

static pid_t ask_wait4(const question *question, pid_t pid)
{
    return take(pid, question->status, question->options | WNOHANG, question->usage);
}

static int take_id(idtype_t type, id_t id, siginfo_t *info, int options)
{
    siginfo_t own = {0};
    const int result = NEXT(waitid)(type, id, &own, options);
    const bool has_ended = own.si_code == CLD_EXITED || own.si_code == CLD_KILLED || own.si_code == CLD_DUMPED;
    if (result == 0 && own.si_pid > 0 && has_ended && (options & WNOWAIT) == 0) {
        shim_child_taken(own.si_pid);
    }
    if (result == 0 && info != NULL) {
        *info = own;
    }
    return result;
}

static pid_t ask_waitid(const question *question, pid_t pid)
{
    siginfo_t info = {0};
    if (take_id(P_PID, (id_t)pid, &info, question->options | WNOHANG) != 0) {
        return -1;
    }
    if (question->info != NULL) {
        *question->info = info;
    }
    return info.si_pid;
}

/* Waits until one of the children has ended. Returns false with errno set if the call must return. */
static bool wait_for_one_of(const pid_t *pids, size_t count, const void *caller)
{
    const int set = epoll_create1(EPOLL_CLOEXEC);
    int *descriptors = malloc(count * sizeof(*descriptors));
    bool is_complete = set >= 0 && descriptors != NULL;
    size_t opened = 0;
    for (; is_complete && opened < count; opened++) {
        struct epoll_event event = {.events = EPOLLIN};
        descriptors[opened] = (int)syscall(SYS_pidfd_open, pids[opened], 0);
        is_complete = descriptors[opened] >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, descriptors[opened], &event) == 0;
    }
    int error = is_complete ? 0 : errno;
    if (is_complete) {
        shim_process_waited waited = SHIM_PROCESS_BLOCK;
        if (shim_can_wait_for_process(caller)) {
            waited = shim_wait_hooks.for_process(set);
        }
        struct pollfd ready = {.fd = set, .events = POLLIN};
        if (waited == SHIM_PROCESS_GIVE_UP) {
            error = ECHILD;
        } else if (waited == SHIM_PROCESS_BLOCK && NEXT(poll)(&ready, 1, -1) < 0) {
            error = errno;
        }
    }
    while (opened > 0) {
        NEXT(close)(descriptors[--opened]);
    }
    if (set >= 0) {
        NEXT(close)(set);
    }
    free(descriptors);
    errno = error;
    return error == 0;
}

static pid_t ask_all(const question *question, const pid_t *pids, size_t count)
{
    bool is_one_left = false;
    for (size_t i = 0; i < count; i++) {
        const pid_t ended = question->ask(question, pids[i]);
        if (ended > 0) {
            return ended;
        }
        is_one_left = is_one_left || ended == 0;
        if (ended < 0) {
            shim_child_taken(pids[i]);
        }
    }
    if (!is_one_left) {
        errno = ECHILD;
        return -1;
    }
    return 0;
}

static pid_t wait_for_any(const question *question, const void *caller)
{
    for (;;) {
        const size_t count = shim_children_of(shim_current, NULL, 0);
        pid_t *pids = malloc((count + 1) * sizeof(*pids));
        if (count == 0 || pids == NULL) {
            free(pids);
            errno = count == 0 ? ECHILD : ENOMEM;
            return -1;
        }
        (void)shim_children_of(shim_current, pids, count);
        const pid_t ended = ask_all(question, pids, count);
        const bool waits = ended == 0 && (question->options & WNOHANG) == 0;
        const bool goes_on = waits && wait_for_one_of(pids, count, caller);
        const int error = errno;
        free(pids);
        errno = error;
        if (!goes_on) {
            return waits ? -1 : ended;
        }
    }
}

/* ---- before libc ---- */

static pid_t wait_like_wait4(pid_t pid, int *status, int options, struct rusage *usage, const void *caller)
{
    if (is_any(pid)) {
        const question any = {.ask = ask_wait4, .options = options, .status = status, .usage = usage};
        return wait_for_any(&any, caller);
    }
    const bool parks = pid > 0 && options == 0 && usage == NULL && shim_can_wait_for_process(caller);
    return parks ? wait_in_fiber(pid, status, options) : take(pid, status, options, usage);
}

pid_t shim_wait_for_child(pid_t pid, int *status, int options, const void *caller)
{
    return wait_like_wait4(pid, status, options, NULL, caller);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
    return wait_like_wait4(pid, status, options, NULL, SHIM_CALLER);
}

/* wait(); the name is also that of variables. */
pid_t shim_wait_for_any(int *status) __asm__("wait");

pid_t shim_wait_for_any(int *status)
{
    return wait_like_wait4(-1, status, 0, NULL, SHIM_CALLER);
}

pid_t wait3(int *status, int options, struct rusage *usage)
{
    return wait_like_wait4(-1, status, options, usage, SHIM_CALLER);
}

pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
    return wait_like_wait4(pid, status, options, usage, SHIM_CALLER);
}

int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    if ((type == P_ALL || type == P_PGID) && is_any(-1)) {
        const question any = {.ask = ask_waitid, .options = options, .info = info};
        return wait_for_any(&any, SHIM_CALLER) < 0 ? -1 : 0;
    }
    return take_id(type, id, info, options);
}
