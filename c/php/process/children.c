/* Child processes that a request forks (pcntl_fork), and that continue to run PHP.
 *
 * Such a child is a copy of the server with a single thread: nothing sends its response, writes its log or enforces its
 * time limit, and it must not use resources that it shares with its parent (connections, OPcache's memory). It is
 * therefore detached immediately. Its request no longer has a client or a host; the server's descriptors are closed;
 * changes of the environment affect the child's process; it compiles scripts for itself; and it waits by blocking its
 * thread. When its script ends, the process ends too, after shutdown functions and destructors: it never returns to the
 * host's loop.
 *
 * Between requests, fork() is refused: there is no script whose end would end the child. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/files/files.h"
#include "php/libc/libc.h"
#include "php/process/process.h"
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- the log of a child ---- */

enum { LOG_LINE_MAX = 1024 };

/* The arguments of %.*s. */
#define AT_MOST(max, view) (int)MIN((view).length, (size_t)(max)), (view).bytes

/* The thread that writes the log exists in the parent only. */
static void write_log(void *request, const shim_log *record)
{
    (void)request;
    char *line = NULL;
    const char *const space = record->context.length > 0 ? " " : "";
    int length = record->file.length > 0
                     ? asprintf(&line, "svc: forked process %d: %.*s%s%.*s in %.*s:%u\n", (int)getpid(),
                                AT_MOST(800, record->message), space, AT_MOST(800, record->context),
                                AT_MOST(512, record->file), record->line)
                     : asprintf(&line, "svc: forked process %d: %.*s%s%.*s\n", (int)getpid(),
                                AT_MOST(800, record->message), space, AT_MOST(800, record->context));
    if (length < 0) {
        return;
    }
    if (length > LOG_LINE_MAX) {
        length = LOG_LINE_MAX;
        line[length - 1] = '\n';
    }
    ssize_t written = write(STDERR_FILENO, line, (size_t)length);
    (void)written;
    free(line);
}

/* ---- the fork ---- */

/* Descriptors below SHIM_DESCRIPTOR_MIN: the server's listening sockets, and other files that were open before PHP
 * started. */
enum { EARLY_MAX = 64 };

static struct {
    int descriptor;
    dev_t device;
    ino_t inode;
} early[EARLY_MAX];
static size_t early_count;

static void note_early_descriptors(void)
{
    for (int descriptor = STDERR_FILENO + 1; descriptor < SHIM_DESCRIPTOR_MIN && early_count < EARLY_MAX;
         descriptor++) {
        int flags = fcntl(descriptor, F_GETFD);
        struct stat file;
        /* Without the flag, the descriptor was inherited and does not belong to the server. */
        if (flags >= 0 && (flags & FD_CLOEXEC) != 0 && fstat(descriptor, &file) == 0) {
            early[early_count].descriptor = descriptor;
            early[early_count].device = file.st_dev;
            early[early_count].inode = file.st_ino;
            early_count++;
        }
    }
}

static void close_server_descriptors(void)
{
    for (size_t i = 0; i < early_count; i++) {
        struct stat file;
        /* The number may have been reused for a script's file. */
        if (fstat(early[i].descriptor, &file) == 0 && file.st_dev == early[i].device && file.st_ino == early[i].inode) {
            (void)syscall(SYS_close, early[i].descriptor);
        }
    }
    closefrom(SHIM_DESCRIPTOR_MIN);
}

/* Detaches the child, in which PHP's locks (see below) and those of libc are free. */
static void become_child(void)
{
    tsrm_env_unlock();
    if (shim_current == NULL) {
        return;
    }
    shim_is_child = true;
    close_server_descriptors();
    shim_host_forget(write_log);
    shim_environment_become();
    shim_own_signals_become();
    shim_own_directory_become();
    shim_directory_follow();
    shim_execution_timer_forget();
    /* Its boot script ends instead of serving again. */
    shim_own_worker.is_ending = true;
}

void shim_children_install(void)
{
    note_early_descriptors();
    /* PHP holds this lock briefly around each getenv(); a child could inherit it while another thread holds it. */
    pthread_atfork(tsrm_env_lock, tsrm_env_unlock, become_child);
}

/* Disables OPcache: its memory also belongs to the parent, and its locks work between threads only. Scripts that are
 * already compiled remain in use. At this stage, OPcache's handlers do not object. */
static void disable_opcache(void)
{
    static const char *const directives[] = {"opcache.enable", "opcache.jit"};
    for (size_t i = 0; i < SHIM_COUNT(directives); i++) {
        zend_string *name = zend_string_init(directives[i], strlen(directives[i]), 0);
        if (zend_hash_exists(EG(ini_directives), name)) {
            (void)zend_alter_ini_entry_chars(name, "0", 1, ZEND_INI_USER, ZEND_INI_STAGE_ACTIVATE);
        }
        zend_string_release(name);
    }
}

/* Replaces libc's function; called by pcntl_fork(). */
pid_t fork(void)
{
    if (shim_current == NULL && shim_own_worker.serving) {
        errno = EAGAIN;
        return -1;
    }
    pid_t child = NEXT(fork)();
    if (child == 0 && shim_is_child) {
        disable_opcache();
    }
    if (child > 0) {
        shim_child_started(child);
    }
    return child;
}

/* ---- its end ---- */

void shim_child_end(void)
{
    if (shim_is_child) {
        _exit(EG(exit_status));
    }
}
