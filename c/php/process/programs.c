/* Child programs: the environment, signal mask, working directory and descriptors that they inherit.
 *
 * PHP starts programs with posix_spawn() (proc_open) and popen() (exec, shell_exec, system, passthru, popen, mail); both
 * are replaced here. A program inherits the environment of its request (environment.c) and an empty signal mask: the
 * server blocks the control signals.
 *
 * PHP opens files and sockets without close-on-exec. A program would inherit those of every request, and hold their locks
 * and connections after the requests have ended. It therefore inherits only descriptors 0 to 2 and those that the
 * descriptor specification of proc_open() lists; all others are closed, including those that its request has opened.
 *
 * pcntl_exec() fails in the server, and works in a forked child. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/files/files.h"
#include "php/libc/libc.h"
#include "php/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the descriptors and the directory of a program ---- */

/* The largest descriptor that proc_open() may pass. Each smaller one that it does not pass takes a file action. */
enum { PASSED_MAX = 65535 };

/* Closes all descriptors above 2 in the program, except the keys of `passed`, which may be NULL. Call it after adding the
 * actions that open these. */
static int close_others(posix_spawn_file_actions_t *actions, const zend_array *passed)
{
    int last = STDERR_FILENO;
    if (passed != NULL) {
        zend_ulong key;
        ZEND_HASH_FOREACH_NUM_KEY (passed, key) {
            last = MAX(last, (int)key);
        }
        ZEND_HASH_FOREACH_END();
    }
    if (last > PASSED_MAX) {
        return EBADF;
    }
    for (int descriptor = STDERR_FILENO + 1; descriptor < last; descriptor++) {
        if (!zend_hash_index_exists(passed, (zend_ulong)descriptor)) {
            int result = posix_spawn_file_actions_addclose(actions, descriptor);
            if (result != 0) {
                return result;
            }
        }
    }
    int result = posix_spawn_file_actions_addclosefrom_np(actions, last + 1);
    /* The limit of descriptors: none can be open from here on. */
    return result == EBADF ? 0 : result;
}

/* The program starts in the working directory of its request, or of the thread if that directory was removed. */
static int enter_directory(posix_spawn_file_actions_t *actions)
{
    const char *apart = shim_directory_apart();
    return apart != NULL && access(apart, X_OK) == 0 ? NEXT(posix_spawn_file_actions_addchdir_np)(actions, apart) : 0;
}

/* Resolves the `cwd` of proc_open() against the request's directory. */
int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *actions, const char *path)
{
    const char *apart = path[0] != '/' ? shim_directory_apart() : NULL;
    int result = apart != NULL ? NEXT(posix_spawn_file_actions_addchdir_np)(actions, apart) : 0;
    return result == 0 ? NEXT(posix_spawn_file_actions_addchdir_np)(actions, path) : result;
}

/* Adds the file actions that proc_open() omits. */
static int complete(posix_spawn_file_actions_t *actions, const zend_execute_data *proc_open)
{
    const zval *passed = shim_argument(proc_open, 2);
    const zval *directory = shim_argument(proc_open, 4);
    int result =
        close_others(actions, passed != NULL && Z_TYPE_P(passed) == IS_ARRAY ? Z_ARRVAL_P(passed) : NULL);
    if (result == 0 && (directory == NULL || Z_TYPE_P(directory) == IS_NULL)) {
        result = enter_directory(actions);
    }
    return result;
}

/* ---- posix_spawn ---- */

typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                           char *const[], char *const[]);

/* Starts a program with an empty signal mask in the caller's attributes, and the default action for a signal that the
 * server ignores. Libraries other than libphp choose the descriptors of their programs. */
static int spawn(spawn_function *function, pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    if (shim_current == NULL) {
        return function(pid, path, actions, attributes, arguments, environment);
    }
    const zend_execute_data *proc_open = shim_current_call("proc_open");
    if (proc_open != NULL && actions != NULL) {
        /* The object is not const: it is a local variable of proc_open(). */
        int result = complete((posix_spawn_file_actions_t *)actions, proc_open);
        if (result != 0) {
            return result;
        }
    }
    posix_spawnattr_t own;
    short flags = 0;
    sigset_t none;
    char **merged = NULL;
    if (environment == environ && !shim_environment_merge(&merged)) {
        return ENOMEM;
    }
    sigemptyset(&none);
    if (attributes != NULL) {
        own = *attributes;
        posix_spawnattr_getflags(&own, &flags);
    } else {
        posix_spawnattr_init(&own);
    }
    if ((flags & POSIX_SPAWN_SETSIGMASK) == 0) {
        posix_spawnattr_setsigmask(&own, &none);
    }
    if ((flags & POSIX_SPAWN_SETSIGDEF) == 0) {
        sigaddset(&none, SIGXFSZ);
        posix_spawnattr_setsigdefault(&own, &none);
    }
    posix_spawnattr_setflags(&own, (short)(flags | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    pid_t started = 0;
    int result = function(&started, path, actions, &own, arguments, merged != NULL ? merged : environment);
    if (result == 0) {
        shim_child_started(started);
        if (pid != NULL) {
            *pid = started;
        }
    }
    free(merged);
    if (attributes == NULL) {
        posix_spawnattr_destroy(&own);
    }
    return result;
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    return spawn(NEXT(posix_spawn), pid, path, actions, attributes, arguments, environment);
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    return spawn(NEXT(posix_spawnp), pid, file, actions, attributes, arguments, environment);
}

/* ---- popen ---- */

/* A program at the other end of a pipe. */
typedef struct program {
    struct program *next;
    FILE *pipe;
    pid_t pid;
    pthread_t thread;
} program;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Shared by all threads: a library may close on one thread a program that it has opened on another. */
static program *programs;

static bool is_mode(const char *mode, bool *reads)
{
    bool writes = false;
    *reads = false;
    for (; *mode != '\0'; mode++) {
        switch (*mode) {
        case 'r':
            *reads = true;
            break;
        case 'w':
            writes = true;
            break;
        case 'e':
            break;
        default:
            return false;
        }
    }
    return *reads != writes;
}

/* Starts the shell with one end of the pipe as its input or output. */
static int start_shell(pid_t *pid, const char *command, int end, int as)
{
    posix_spawn_file_actions_t actions;
    char *const arguments[] = {"sh", "-c", (char *)command, NULL};
    int result = posix_spawn_file_actions_init(&actions);
    if (result != 0) {
        return result;
    }
    result = posix_spawn_file_actions_adddup2(&actions, end, as);
    if (result == 0) {
        result = close_others(&actions, NULL);
    }
    if (result == 0) {
        result = enter_directory(&actions);
    }
    if (result == 0) {
        result = posix_spawn(pid, "/bin/sh", &actions, NULL, arguments, environ);
    }
    posix_spawn_file_actions_destroy(&actions);
    return result;
}

/* The largest pipe that the kernel gives to unprivileged processes. */
enum { PRINTED_MAX = 1 << 20 };

static bool open_program(program *program, const char *command, bool reads)
{
    int ends[2];
    /* Close-on-exec without `e` in the mode, unlike libc's: a program that a library forks for another request could inherit
     * our end, and this program would never see the end of its input. */
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    int own = reads ? ends[0] : ends[1];
    int other = reads ? ends[1] : ends[0];
    if (!reads && shim_can_wait_for_process(NULL)) {
        /* Output is written through stdio, which no hook sees: mail() would block until the program has read its message. */
        (void)fcntl(own, F_SETPIPE_SZ, PRINTED_MAX);
    }
    program->pipe = fdopen(own, reads ? "r" : "w");
    int result = program->pipe == NULL ? errno
                                       : start_shell(&program->pid, command, other, reads ? STDOUT_FILENO : STDIN_FILENO);
    close(other);
    if (result == 0) {
        return true;
    }
    if (program->pipe != NULL) {
        fclose(program->pipe);
    } else {
        close(own);
    }
    errno = result;
    return false;
}

FILE *popen(const char *command, const char *mode)
{
    bool reads;
    if (!is_mode(mode, &reads)) {
        errno = EINVAL;
        return NULL;
    }
    program *program = malloc(sizeof(*program));
    if (program == NULL) {
        return NULL;
    }
    if (!open_program(program, command, reads)) {
        free(program);
        return NULL;
    }
    program->thread = pthread_self();
    pthread_mutex_lock(&lock);
    program->next = programs;
    programs = program;
    pthread_mutex_unlock(&lock);
    return program->pipe;
}

static program *take_program(FILE *pipe)
{
    pthread_mutex_lock(&lock);
    program **at = &programs;
    while (*at != NULL && (*at)->pipe != pipe) {
        at = &(*at)->next;
    }
    program *found = *at;
    if (found != NULL) {
        *at = found->next;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

int pclose(FILE *pipe)
{
    program *program = take_program(pipe);
    if (program == NULL) {
        return NEXT(pclose)(pipe);
    }
    const void *caller = SHIM_CALLER;
    pid_t pid = program->pid;
    free(program);
    int unwritten = fclose(pipe);
    int status = -1;
    pid_t ended;
    do {
        ended = shim_wait_for_child(pid, &status, 0, caller);
    } while (ended < 0 && errno == EINTR);
    if (ended < 0) {
        return -1;
    }
    return status != 0 ? status : unwritten;
}

/* ---- replacing the process ---- */

static pid_t server;

/* Also true in a child of vfork(), which cannot be distinguished. */
static bool is_the_server(void)
{
    return shim_current != NULL && shim_process_id() == server;
}

int execve(const char *path, char *const arguments[], char *const environment[])
{
    if (is_the_server()) {
        errno = EPERM;
        return -1;
    }
    /* Libraries that fork pass on the descriptors that their program needs. Fails on Linux before 5.11. */
    if (shim_current != NULL && shim_current_call("pcntl_exec") != NULL) {
        (void)close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
    }
    char **merged = NULL;
    if (environment == environ && !shim_environment_merge(&merged)) {
        errno = ENOMEM;
        return -1;
    }
    int result = NEXT(execve)(path, arguments, merged != NULL ? merged : environment);
    int error = errno;
    free(merged);
    errno = error;
    return result;
}

int execv(const char *path, char *const arguments[])
{
    return execve(path, arguments, environ);
}

/* ---- forks ---- */

static void lock_programs(void)
{
    pthread_mutex_lock(&lock);
}

static void unlock_programs(void)
{
    pthread_mutex_unlock(&lock);
}

/* Closes the pipes of other threads' programs in the child: otherwise these would not see the end of their input before
 * the child ends. */
static void keep_own_programs(void)
{
    for (const program *program = programs; program != NULL; program = program->next) {
        if (!pthread_equal(program->thread, pthread_self())) {
            close(fileno(program->pipe));
        }
    }
    pthread_mutex_unlock(&lock);
}

void shim_programs_install(void)
{
    server = shim_process_id();
    pthread_atfork(lock_programs, unlock_programs, keep_own_programs);
}
