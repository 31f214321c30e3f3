/* An extension for tests: processes as an extension creates them. */
#include <php.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* test_fork(): int; as pcntl_fork() */
PHP_FUNCTION(test_fork)
{
    ZEND_PARSE_PARAMETERS_NONE();
    pid_t child = fork();
#ifdef ZEND_MAX_EXECUTION_TIMERS
    if (child == 0) {
        zend_max_execution_timer_init();
    }
#endif
    RETURN_LONG(child);
}

/* test_wait(int $child): int; the exit status, or the signal times -1 */
PHP_FUNCTION(test_wait)
{
    zend_long child;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_LONG(child)
    ZEND_PARSE_PARAMETERS_END();
    int status = 0;
    if (waitpid((pid_t)child, &status, 0) != child) {
        RETURN_LONG(-1000);
    }
    RETURN_LONG(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

/* test_exec(string $program, string $argument): int; errno. Returns only if the process was not replaced. */
PHP_FUNCTION(test_exec)
{
    char *program, *argument;
    size_t program_length, argument_length;
    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_STRING(program, program_length)
        Z_PARAM_STRING(argument, argument_length)
    ZEND_PARSE_PARAMETERS_END();
    char *const arguments[] = {program, argument, NULL};
    execv(program, arguments);
    RETURN_LONG(errno);
}

/* test_popen(string $mode): int; errno, or 0 */
PHP_FUNCTION(test_popen)
{
    char *mode;
    size_t mode_length;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STRING(mode, mode_length)
    ZEND_PARSE_PARAMETERS_END();
    errno = 0;
    FILE *pipe = popen("exit 0", mode);
    if (pipe == NULL) {
        RETURN_LONG(errno);
    }
    RETURN_LONG(pclose(pipe));
}

/* ---- signals and attributes, as in pcntl ---- */

static __thread volatile int handled[65];

static void on_signal(int number)
{
    handled[number]++;
}

static zend_long number_of(zend_execute_data *execute_data)
{
    return ZEND_CALL_NUM_ARGS(execute_data) > 0 ? zval_get_long(ZEND_CALL_ARG(execute_data, 1)) : 0;
}

static void set_handler(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* test_handle(int $signal): void; counts from 0 from now on */
PHP_FUNCTION(test_handle)
{
    const int number = (int)number_of(execute_data);
    handled[number] = 0;
    set_handler(number, on_signal);
}

/* test_handled(int $signal): int; the count; removes the handler */
PHP_FUNCTION(test_handled)
{
    const int number = (int)number_of(execute_data);
    RETVAL_LONG(handled[number]);
    set_handler(number, SIG_DFL);
}

/* test_count(int $signal): int; the count so far */
PHP_FUNCTION(test_count)
{
    RETURN_LONG(handled[number_of(execute_data)]);
}

/* test_ignore(int $signal): void */
PHP_FUNCTION(test_ignore)
{
    set_handler((int)number_of(execute_data), SIG_IGN);
}

/* test_block(int $signal): bool; unblocks a negative signal; whether it was blocked */
PHP_FUNCTION(test_block)
{
    const int number = (int)number_of(execute_data);
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, abs(number));
    sigprocmask(number > 0 ? SIG_BLOCK : SIG_UNBLOCK, &set, &old);
    RETURN_BOOL(sigismember(&old, abs(number)));
}

/* test_take(int $signal): int; the signal, or -errno after 10 ms */
PHP_FUNCTION(test_take)
{
    const struct timespec time = {.tv_nsec = 10000000};
    siginfo_t info;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, (int)number_of(execute_data));
    const int taken = sigtimedwait(&set, &info, &time);
    RETURN_LONG(taken > 0 ? info.si_signo : -errno);
}

/* test_alarm(int $seconds): int */
PHP_FUNCTION(test_alarm)
{
    RETURN_LONG(alarm((unsigned)number_of(execute_data)));
}

/* test_wait_any(int $options): array; the ID and the exit status, or -errno */
PHP_FUNCTION(test_wait_any)
{
    int status = 0;
    const pid_t pid = waitpid(-1, &status, (int)number_of(execute_data));
    array_init(return_value);
    add_next_index_long(return_value, pid >= 0 ? pid : -errno);
    add_next_index_long(return_value, pid > 0 ? WEXITSTATUS(status) : 0);
}

/* test_wait_id(): array; the same with waitid() */
PHP_FUNCTION(test_wait_id)
{
    siginfo_t info = {0};
    const int result = waitid(P_ALL, 0, &info, WEXITED);
    array_init(return_value);
    add_next_index_long(return_value, result == 0 ? info.si_pid : -errno);
    add_next_index_long(return_value, info.si_status);
}

/* test_priority(int $priority): int; sets the thread's priority if there is an argument; returns it, or 1000 + errno */
PHP_FUNCTION(test_priority)
{
    if (ZEND_CALL_NUM_ARGS(execute_data) > 0 && setpriority(PRIO_PROCESS, 0, (int)number_of(execute_data)) != 0) {
        RETURN_LONG(1000 + errno);
    }
    RETURN_LONG(getpriority(PRIO_PROCESS, 0));
}

/* test_processors(int $only): int; pins the thread to one processor if there is an argument; how many it may use */
PHP_FUNCTION(test_processors)
{
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    if (ZEND_CALL_NUM_ARGS(execute_data) > 0) {
        int first = 0;
        while (!CPU_ISSET(first, &set)) {
            first++;
        }
        CPU_ZERO(&set);
        CPU_SET(first, &set);
        sched_setaffinity(0, sizeof(set), &set);
        sched_getaffinity(0, sizeof(set), &set);
    }
    RETURN_LONG(CPU_COUNT(&set));
}

/* test_change(int $what): int; changes an attribute of the process: errno, or 0 */
PHP_FUNCTION(test_change)
{
    int result = -1;
    errno = 0;
    switch (number_of(execute_data)) {
    case 0:
        result = setpriority(PRIO_PGRP, 0, 5);
        break;
    case 1:
        result = setpriority(PRIO_USER, 0, 5);
        break;
    case 2:
        result = unshare(CLONE_NEWUTS);
        break;
    case 3:
        result = setns(0, 0);
        break;
    }
    RETURN_LONG(result == 0 ? 0 : errno);
}

/* test_lost(string $file, bool $shared): int; reads, or writes, the last byte of a mapped file that is empty by then, and
 * returns the size of the file afterwards */
PHP_FUNCTION(test_lost)
{
    char *path;
    size_t path_length;
    bool shared;
    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_PATH(path, path_length)
        Z_PARAM_BOOL(shared)
    ZEND_PARSE_PARAMETERS_END();
    struct stat file;
    const int descriptor = open(path, O_RDWR);
    fstat(descriptor, &file);
    const size_t length = (size_t)file.st_size;
    volatile char *mapped = shared ? mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
                                   : mmap(NULL, length, PROT_READ, MAP_PRIVATE, descriptor, 0);
    int result = ftruncate(descriptor, 0);
    if (shared) {
        mapped[length - 1] = 'x';
    } else {
        result += mapped[length - 1] + mapped[0];
    }
    fstat(descriptor, &file);
    munmap((void *)mapped, length);
    close(descriptor);
    RETURN_LONG(result != 0 ? -1 : file.st_size);
}

ZEND_BEGIN_ARG_INFO_EX(arginfo_any, 0, 0, 0)
    ZEND_ARG_INFO(0, argument)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_INFO_EX(arginfo_none, 0, 0, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_INFO_EX(arginfo_one, 0, 0, 1)
    ZEND_ARG_INFO(0, argument)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_INFO_EX(arginfo_two, 0, 0, 2)
    ZEND_ARG_INFO(0, program)
    ZEND_ARG_INFO(0, argument)
ZEND_END_ARG_INFO()

static const zend_function_entry functions[] = {
    PHP_FE(test_fork, arginfo_none)
    PHP_FE(test_wait, arginfo_one)
    PHP_FE(test_exec, arginfo_two)
    PHP_FE(test_popen, arginfo_one)
    PHP_FE(test_handle, arginfo_one)
    PHP_FE(test_handled, arginfo_one)
    PHP_FE(test_count, arginfo_one)
    PHP_FE(test_ignore, arginfo_one)
    PHP_FE(test_block, arginfo_one)
    PHP_FE(test_take, arginfo_one)
    PHP_FE(test_alarm, arginfo_one)
    PHP_FE(test_wait_any, arginfo_one)
    PHP_FE(test_wait_id, arginfo_none)
    PHP_FE(test_priority, arginfo_any)
    PHP_FE(test_processors, arginfo_any)
    PHP_FE(test_change, arginfo_one)
    PHP_FE(test_lost, arginfo_two)
    PHP_FE_END
};

static zend_module_entry test_module_entry = {
    STANDARD_MODULE_HEADER, "test_processes", functions, NULL, NULL, NULL, NULL, NULL, "1", STANDARD_MODULE_PROPERTIES,
};
ZEND_GET_MODULE(test)
