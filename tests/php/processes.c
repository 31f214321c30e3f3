/* An extension for tests: processes as an extension makes them. */
#include <php.h>

#include <errno.h>
#include <stdio.h>
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

/* test_exec(string $program, string $argument): int; errno. Returns only when the process is not replaced. */
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
    PHP_FE_END
};

static zend_module_entry test_module_entry = {
    STANDARD_MODULE_HEADER, "test_processes", functions, NULL, NULL, NULL, NULL, NULL, "1", STANDARD_MODULE_PROPERTIES,
};
ZEND_GET_MODULE(test)
