/* Replaces PHP's error callback during a request, as Xdebug does: it prints errors and does not call the previous one. */
#include <php.h>

#include <zend_observer.h>

static void (*displaced)(int, zend_string *, const uint32_t, zend_string *);

static void show_error(int type, zend_string *file, const uint32_t line, zend_string *message)
{
    (void)file;
    (void)line;
    php_printf("shown: %s", ZSTR_VAL(message));
    if ((type & E_FATAL_ERRORS) != 0 && (type & E_DONT_BAIL) == 0) {
        zend_objects_store_mark_destructed(&EG(objects_store));
        zend_bailout();
    }
}

static PHP_RINIT_FUNCTION(test)
{
    (void)type;
    (void)module_number;
    displaced = zend_error_cb;
    zend_error_cb = show_error;
    return SUCCESS;
}

static ZEND_MODULE_POST_ZEND_DEACTIVATE_D(test)
{
    zend_error_cb = displaced;
    return SUCCESS;
}

static zend_module_entry test_module_entry = {
    STANDARD_MODULE_HEADER, "test_debugger", NULL, NULL, NULL, PHP_RINIT(test), NULL, NULL, "1",
    NO_MODULE_GLOBALS, ZEND_MODULE_POST_ZEND_DEACTIVATE_N(test), STANDARD_MODULE_PROPERTIES_EX,
};
ZEND_GET_MODULE(test)
