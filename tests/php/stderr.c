/* An extension for tests: where libc's own messages go. */
#include <php.h>

#include <fcntl.h>
#include <unistd.h>

/* test_stderr(string $path): bool; of the process, for good */
PHP_FUNCTION(test_stderr)
{
    char *path;
    size_t path_len;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STRING(path, path_len)
    ZEND_PARSE_PARAMETERS_END();
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    RETURN_BOOL(file >= 0 && dup2(file, STDERR_FILENO) >= 0 && close(file) == 0);
}

ZEND_BEGIN_ARG_INFO_EX(arginfo_path, 0, 0, 1)
    ZEND_ARG_INFO(0, path)
ZEND_END_ARG_INFO()

static const zend_function_entry functions[] = {
    PHP_FE(test_stderr, arginfo_path)
    PHP_FE_END
};

static zend_module_entry test_module_entry = {
    STANDARD_MODULE_HEADER, "test_stderr", functions, NULL, NULL, NULL, NULL, NULL, "1", STANDARD_MODULE_PROPERTIES};

ZEND_GET_MODULE(test)
