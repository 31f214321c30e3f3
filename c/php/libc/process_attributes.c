/* Process and thread attributes: posix, pcntl, proc_nice() and getrusage().
 *
 * Identity, session, process group, namespaces and resource limits belong to the process: a change by one request would
 * affect all requests permanently. The calls fail with EPERM, as the kernel refuses them to an unprivileged user.
 * Priority and CPU affinity belong to a thread. A request may change those of its own thread as far as they can be
 * restored, which happens when it ends, and while other requests use the thread. A forked child is another process and
 * may change everything. */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <unistd.h>

/* ---- umask and the working directory ---- */

/* The file mode mask and the working directory, which the threads of a process share, but requests must not.
 *
 * Each thread has its own if the system lets threads detach from those of the process (unshare(CLONE_FS)). Containers
 * often forbid that, which shim_facts reports. PHP's own chdir() is virtual and per request anyway (php/files/paths.c lets
 * the directory of the thread follow it). The mask is not
 * emulated, because libc also opens files itself (fopen), where an emulated mask would not apply. But PHP reads the
 * mask by briefly setting another one, which would affect files of other requests; if the mask is shared, its value is
 * therefore recorded. */

static bool own_umask;
/* Whether the calling thread has its own. The thread that starts PHP does not. */
static __thread bool has_left;
/* The mask of the process, if threads share it. */
static mode_t shared_umask;

static void *try_to_leave(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)(unshare(CLONE_FS) == 0);
}

/* Tries it on a short-lived thread: the calling thread shares its mask with threads that do not run PHP, and must
 * continue to do so. */
void shim_umask_install(void)
{
    pthread_t thread;
    void *left = NULL;
    if (pthread_create(&thread, NULL, try_to_leave, NULL) == 0) {
        (void)NEXT(pthread_join)(thread, &left);
    }
    own_umask = left != NULL;
    (void)umask(NEXT(umask)(077));
}

/* Replaces libc's function. */
mode_t umask(mode_t mask)
{
    mode_t before = NEXT(umask)(mask);
    if (!own_umask) {
        __atomic_store_n(&shared_umask, mask & 0777, __ATOMIC_RELAXED);
    }
    return before;
}

mode_t shim_shared_umask(void)
{
    return __atomic_load_n(&shared_umask, __ATOMIC_RELAXED);
}

bool shim_has_own_umask(void)
{
    return own_umask;
}

void shim_umask_thread_start(void)
{
    has_left = unshare(CLONE_FS) == 0;
}

bool shim_has_own_directory(void)
{
    return has_left;
}

void shim_own_directory_become(void)
{
    has_left = true;
}

/* ---- posix, pcntl, proc_nice() ---- */

static int refuse(void)
{
    errno = EPERM;
    return -1;
}

/* ---- the process ---- */

/* A function of libc that requests are refused. */
#define REFUSED(type, name, parameters, ...) \
    type name parameters \
    { \
        return shim_is_in_request() ? refuse() : NEXT(name)(__VA_ARGS__); \
    }

REFUSED(int, setuid, (uid_t user), user)
REFUSED(int, seteuid, (uid_t user), user)
REFUSED(int, setgid, (gid_t group), group)
REFUSED(int, setegid, (gid_t group), group)
REFUSED(int, initgroups, (const char *user, gid_t group), user, group)
REFUSED(pid_t, setsid, (void))
REFUSED(int, unshare, (int flags), flags)
REFUSED(int, setns, (int descriptor, int type), descriptor, type)

/* AddressSanitizer calls this before it has mapped its shadow memory. */
__attribute__((no_sanitize_address, no_sanitize_undefined)) int setrlimit(__rlimit_resource_t resource,
                                                                         const struct rlimit *limit)
{
    const bool is_of_request = shim_current != NULL && !shim_is_child;
    return is_of_request ? refuse() : (int)syscall(SYS_prlimit64, 0, resource, limit, NULL);
}

int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit)
{
    return setrlimit(resource, (const struct rlimit *)limit);
}

/* A child may be moved. */
int setpgid(pid_t pid, pid_t group)
{
    return shim_is_in_request() && (pid == 0 || pid == shim_process_id()) ? refuse() : NEXT(setpgid)(pid, group);
}

/* ---- the thread ---- */

/* The attributes of the thread before the request has changed them. */
static __thread struct {
    bool has_priority;
    int priority;
    bool has_processors;
    cpu_set_t processors;
} before;

typedef enum whose { OWN_THREAD, ANOTHER_THREAD, ANOTHER_PROCESS } whose;

/* Returns the owner of an ID. To its script, the request is the process. */
static whose whose_is(id_t id)
{
    const int error = errno;
    whose whose = ANOTHER_PROCESS;
    if (id == 0 || (pid_t)id == shim_process_id() || (pid_t)id == (pid_t)syscall(SYS_gettid)) {
        whose = OWN_THREAD;
    } else if (syscall(SYS_tgkill, shim_process_id(), (pid_t)id, 0) == 0) {
        whose = ANOTHER_THREAD;
    }
    errno = error;
    return whose;
}

/* Whether the thread may raise its priority to this one: by a capability, or by its limit. */
static bool may_restore(int priority)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    struct rlimit limit;
    if (syscall(SYS_capget, &header, data) == 0 && (data[0].effective & 1u << CAP_SYS_NICE) != 0) {
        return true;
    }
    return getrlimit(RLIMIT_NICE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
           20 - (int64_t)limit.rlim_cur <= priority;
}

static int set_own_priority(int priority)
{
    const int now = getpriority(PRIO_PROCESS, 0);
    const int first = before.has_priority ? before.priority : now;
    if (priority > first && !may_restore(first)) {
        return refuse();
    }
    const int result = NEXT(setpriority)(PRIO_PROCESS, 0, priority);
    if (result == 0) {
        before.has_priority = true;
        before.priority = first;
    }
    return result;
}

int setpriority(__priority_which_t which, id_t who, int priority)
{
    if (!shim_is_in_request()) {
        return NEXT(setpriority)(which, who, priority);
    }
    const bool is_everybody = (which == PRIO_PGRP && (who == 0 || (pid_t)who == getpgrp())) ||
                              (which == PRIO_USER && (who == 0 || who == getuid()));
    const whose whose = which == PRIO_PROCESS ? whose_is(who) : ANOTHER_PROCESS;
    if (is_everybody || whose == ANOTHER_THREAD) {
        return refuse();
    }
    return whose == OWN_THREAD ? set_own_priority(priority) : NEXT(setpriority)(which, who, priority);
}

/* Called by proc_nice(). */
int nice(int increment)
{
    /* -1 is a valid priority; the kernel clamps values that are out of bounds. */
    errno = 0;
    const int now = getpriority(PRIO_PROCESS, 0);
    if (errno != 0 || setpriority(PRIO_PROCESS, 0, now + MAX(-40, MIN(increment, 40))) != 0) {
        errno = errno == EACCES ? EPERM : errno;
        return -1;
    }
    errno = 0;
    return getpriority(PRIO_PROCESS, 0);
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *processors)
{
    if (!shim_is_in_request()) {
        return NEXT(sched_setaffinity)(pid, size, processors);
    }
    const whose whose = whose_is((id_t)pid);
    if (whose == ANOTHER_PROCESS) {
        return NEXT(sched_setaffinity)(pid, size, processors);
    }
    cpu_set_t first;
    if (whose == ANOTHER_THREAD || (!before.has_processors && sched_getaffinity(0, sizeof(first), &first) != 0)) {
        return refuse();
    }
    const int result = NEXT(sched_setaffinity)(0, size, processors);
    if (result == 0 && !before.has_processors) {
        before.has_processors = true;
        before.processors = first;
    }
    return result;
}

/* ---- CPU time ---- */

/* To its script, the CPU time of a request's thread is that of the process; that of the process counts all requests. */
int getrusage(__rusage_who_t who, struct rusage *usage)
{
    return NEXT(getrusage)(who == RUSAGE_SELF && shim_is_in_request() ? RUSAGE_THREAD : who, usage);
}

static clock_t to_ticks(struct timeval time)
{
    const long per_second = sysconf(_SC_CLK_TCK);
    return time.tv_sec * per_second + time.tv_usec * per_second / 1000000;
}

clock_t times(struct tms *ticks)
{
    const clock_t now = NEXT(times)(ticks);
    struct rusage usage;
    if (ticks != NULL && shim_is_in_request() && getrusage(RUSAGE_SELF, &usage) == 0) {
        ticks->tms_utime = to_ticks(usage.ru_utime);
        ticks->tms_stime = to_ticks(usage.ru_stime);
    }
    return now;
}

/* ---- requests that share a thread, and their end ---- */

void shim_attributes_end(void)
{
    if (before.has_priority) {
        (void)NEXT(setpriority)(PRIO_PROCESS, 0, before.priority);
        before.has_priority = false;
    }
    if (before.has_processors) {
        (void)NEXT(sched_setaffinity)(0, sizeof(before.processors), &before.processors);
        before.has_processors = false;
    }
}

/* Saves the priority and restores the thread's attributes. A request continues on any processor after a wait. */
void shim_attributes_suspend(shim_attributes_state *state)
{
    *state = (shim_attributes_state){.has_priority = before.has_priority};
    if (before.has_priority) {
        state->priority = getpriority(PRIO_PROCESS, 0);
    }
    shim_attributes_end();
}

void shim_attributes_resume(const shim_attributes_state *state)
{
    if (state->has_priority) {
        (void)set_own_priority(state->priority);
    }
}
