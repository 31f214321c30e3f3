/* A library that starts a program on a thread of its own. */
#include <php.h>

#include <pthread.h>
#include <stdio.h>

ZEND_BEGIN_ARG_INFO_EX(arginfo_none, 0, 0, 0)
ZEND_END_ARG_INFO()

static void *start(void *line)
{
    FILE *pipe = popen("pwd", "r");
    if (pipe == NULL || fgets(line, MAXPATHLEN, pipe) == NULL || pclose(pipe) != 0) {
        *(char *)line = '\0';
    }
    return NULL;
}

PHP_FUNCTION(test_popen_elsewhere)
{
    char line[MAXPATHLEN] = "";
    pthread_t thread;

    ZEND_PARSE_PARAMETERS_NONE();
    if (pthread_create(&thread, NULL, start, line) != 0 || pthread_join(thread, NULL) != 0) {
        RETURN_NULL();
    }
    RETURN_STRING(line);
}

static const zend_function_entry test_functions[] = {
    PHP_FE(test_popen_elsewhere, arginfo_none)
    PHP_FE_END
};

static zend_module_entry foreign_thread_module_entry = {
    STANDARD_MODULE_HEADER, "test_foreign_thread", test_functions, NULL, NULL, NULL, NULL, NULL, "1",
    STANDARD_MODULE_PROPERTIES,
};
ZEND_GET_MODULE(foreign_thread)
