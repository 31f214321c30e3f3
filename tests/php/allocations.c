/* An extension for tests: memory that the process has allocated outside of PHP's heap. */
#include <php.h>

#include <malloc.h>

/* test_allocated(): int; in bytes, of all threads */
PHP_FUNCTION(test_allocated)
{
    ZEND_PARSE_PARAMETERS_NONE();
    const struct mallinfo2 all = mallinfo2();
    RETURN_LONG((zend_long)(all.uordblks + all.hblkhd));
}

ZEND_BEGIN_ARG_INFO_EX(arginfo_none, 0, 0, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry functions[] = {
    PHP_FE(test_allocated, arginfo_none)
    PHP_FE_END
};

static zend_module_entry test_module_entry = {
    STANDARD_MODULE_HEADER, "test_allocations", functions, NULL, NULL, NULL, NULL, NULL, "1", STANDARD_MODULE_PROPERTIES};

ZEND_GET_MODULE(test)
