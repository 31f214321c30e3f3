/* The file mode mask and the working directory, which the threads of a process share, but requests must not.
 *
 * Each thread has its own if the system lets threads detach from those of the process (unshare(CLONE_FS)). Containers
 * often forbid that, which shim_facts reports. PHP's own chdir() is virtual and per request anyway. The mask is not
 * emulated, because libc also opens files itself (fopen), where an emulated mask would not apply. But PHP reads the
 * mask by briefly setting another one, which would affect files of other requests; if the mask is shared, its value is
 * therefore recorded. */
#include "compat.h"
#include "php/libc/libc.h"
#include "php/libc/umask.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/stat.h>

DECLARE_LIBC(pthread_join);
DECLARE_LIBC(umask);

static bool own_umask;
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
        (void)LIBC(pthread_join)(thread, &left);
    }
    own_umask = left != NULL;
    (void)umask(LIBC(umask)(077));
}

/* Replaces libc's function. */
mode_t umask(mode_t mask)
{
    mode_t before = LIBC(umask)(mask);
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
    (void)unshare(CLONE_FS);
}
