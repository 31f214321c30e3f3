/* The memory that SQLite has counted. */
#include <php.h>

#include <dlfcn.h>

ZEND_BEGIN_ARG_INFO_EX(arginfo_none, 0, 0, 0)
ZEND_END_ARG_INFO()

PHP_FUNCTION(test_sqlite_memory)
{
    ZEND_PARSE_PARAMETERS_NONE();
    long long (*used)(void) = (long long (*)(void))dlsym(RTLD_DEFAULT, "sqlite3_memory_used");
    if (used == NULL) {
        RETURN_NULL();
    }
    RETURN_LONG((zend_long)used());
}

static const zend_function_entry test_functions[] = {
    PHP_FE(test_sqlite_memory, arginfo_none)
    PHP_FE_END
};

static zend_module_entry sqlite_memory_module_entry = {
    STANDARD_MODULE_HEADER, "test_sqlite_memory", test_functions, NULL, NULL, NULL, NULL, NULL, "1",
    STANDARD_MODULE_PROPERTIES,
};
ZEND_GET_MODULE(sqlite_memory)
