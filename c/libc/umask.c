/* The file mode mask and the working directory, which a process shares and PHP's requests must not.
 *
 * They are a thread's own where the system lets a thread leave the process's (unshare(CLONE_FS)); containers often
 * forbid that, and then the host is told. PHP's own chdir() is virtual and per request anyway. The mask is not imitated:
 * libc opens files by itself too (fopen), where nobody would apply it. But to ask for it, PHP sets another one for a
 * moment, which the files of other requests would get; so where it is shared, its value is written down. */
#include "compat.h"
#include "libc/libc.h"
#include "libc/umask.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/stat.h>

DECLARE_LIBC(umask);

static bool own_umask;
/* Where the mask is the process's. */
static mode_t shared_umask;

static void *try_to_leave(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)(unshare(CLONE_FS) == 0);
}

/* On a thread that ends at once: the calling one shares with threads that do not run PHP, and goes on to. */
void shim_umask_install(void)
{
    pthread_t thread;
    void *left = NULL;
    if (pthread_create(&thread, NULL, try_to_leave, NULL) == 0) {
        pthread_join(thread, &left);
    }
    own_umask = left != NULL;
    (void)umask(LIBC(umask)(077));
}

/* Comes before libc's. */
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
