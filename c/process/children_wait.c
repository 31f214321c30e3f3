/* Waiting for programs that a request has started: waitpid(), defined before libc's, for proc_close(), and pclose().
 *
 * The descriptor of a process is ready when the process has ended, so that a request can wait for it as for any other. A
 * request that is over waits no more: its program goes on, and what it leaves behind when it ends is collected later. */
#include "compat.h"
#include "hooks/hooked_wait.h"
#include "hooks/hooks.h"
#include "libc/libc.h"
#include "process/children_wait.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

DECLARE_LIBC(close);
DECLARE_LIBC(waitpid);

/* ---- programs that outlive their request ---- */

typedef struct abandoned {
    struct abandoned *next;
    pid_t pid;
} abandoned;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static abandoned *first;

static void abandon(pid_t pid)
{
    abandoned *entry = malloc(sizeof(*entry));
    if (entry == NULL) {
        /* Its entry in the table of processes stays. */
        return;
    }
    entry->pid = pid;
    pthread_mutex_lock(&lock);
    entry->next = first;
    __atomic_store_n(&first, entry, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

void shim_reap_abandoned(void)
{
    if (__atomic_load_n(&first, __ATOMIC_RELAXED) == NULL) {
        return;
    }
    const int error = errno;
    pthread_mutex_lock(&lock);
    for (abandoned **at = &first; *at != NULL;) {
        abandoned *entry = *at;
        if (LIBC(waitpid)(entry->pid, NULL, WNOHANG) == 0) {
            at = &entry->next;
            continue;
        }
        __atomic_store_n(at, entry->next, __ATOMIC_RELAXED);
        free(entry);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
}

/* ---- waiting ---- */

static pid_t block(pid_t pid, int *status, int options)
{
    return LIBC(waitpid)(pid, status, options);
}

static pid_t wait_in_fiber(pid_t pid, int *status, int options)
{
    const pid_t ended = LIBC(waitpid)(pid, status, options | WNOHANG);
    if (ended != 0) {
        return ended;
    }
    const int descriptor = (int)syscall(SYS_pidfd_open, pid, 0);
    if (descriptor < 0) {
        shim_hook_blocks(SHIM_HOOK_PROCESS, SHIM_OBSTACLE_MEMORY);
        return block(pid, status, options);
    }
    const shim_waited waited = shim_hooked_wait_for(SHIM_HOOK_PROCESS, descriptor, POLLIN, 0);
    LIBC(close)(descriptor);
    if (waited == SHIM_WAITED_OVER) {
        abandon(pid);
        errno = ECHILD;
        return -1;
    }
    /* Ready: it has ended. */
    return block(pid, status, options);
}

pid_t shim_wait_for_child(pid_t pid, int *status, int options, const void *caller)
{
    shim_reap_abandoned();
    return pid > 0 && options == 0 && shim_hook_is_on_for(SHIM_HOOK_PROCESS, caller)
               ? wait_in_fiber(pid, status, options)
               : block(pid, status, options);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
    return shim_wait_for_child(pid, status, options, SHIM_CALLER);
}
