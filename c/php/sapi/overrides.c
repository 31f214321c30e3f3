/* PHP functions with replacements that use the host's knowledge. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"
#include "php/request/request.h"
#include "php/sapi/sapi.h"

static zif_handler php_getenv_handler;
static zif_handler php_connection_aborted_handler;
static zif_handler php_connection_status_handler;

/* Records a disconnect. PHP only detects it when output fails; the host knows earlier. */
static void check_client(void)
{
    if (shim_request_host() != NULL && !shim_current->finished && shim_host.io.is_gone(shim_current->host)) {
        PG(connection_status) |= PHP_CONNECTION_ABORTED;
    }
}

static ZEND_FUNCTION(connection_aborted_by_host)
{
    check_client();
    php_connection_aborted_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static ZEND_FUNCTION(connection_status_by_host)
{
    check_client();
    php_connection_status_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void merge_variable(const char *name, size_t length, const char *value, void *array)
{
    if (value == NULL) {
        zend_symtable_str_del(Z_ARRVAL_P((zval *)array), name, length);
        return;
    }
    zval text;
    ZVAL_STRING(&text, value);
    zend_symtable_str_update(Z_ARRVAL_P((zval *)array), name, length, &text);
}

/* Adds the request's variables to the list. Without a name, getenv() reads the process's array without calling libc or
 * the SAPI. The variables that the request has set, and those that describe it, are added here, so that the list agrees
 * with the call for each name. */
static ZEND_FUNCTION(getenv_with_overlay)
{
    php_getenv_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (Z_TYPE_P(return_value) != IS_ARRAY) {
        return;
    }
    shim_environment_each(merge_variable, return_value);
    const bool is_local = ZEND_NUM_ARGS() > 1 && zend_is_true(ZEND_CALL_ARG(execute_data, 2));
    if (!is_local) {
        shim_server_variables_add(Z_ARRVAL_P(return_value));
    }
}

static zif_handler php_umask_handler;

/* Without an argument, or with null, umask() only queries. */
static ZEND_FUNCTION(umask_that_asks)
{
    if (ZEND_NUM_ARGS() == 0 || (ZEND_NUM_ARGS() == 1 && Z_TYPE_P(ZEND_CALL_ARG(execute_data, 1)) == IS_NULL)) {
        RETURN_LONG(shim_shared_umask());
    }
    php_umask_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static zif_handler php_chdir_handler;

/* More than the names of directories need; Zend's heap grows in chunks of 2 MiB. */
enum { ROOM_FOR_NAMES = 4 << 20 };

/* OPcache's chdir() frees the name that it has stored before it allocates the next one: a bailout in between would
 * leave it with a freed name. It may therefore exceed the memory limit, within bounds, because its warnings may run
 * script code. */
static ZEND_FUNCTION(chdir_with_room)
{
    shim_memory_limit_extend(ROOM_FOR_NAMES);
    php_chdir_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    shim_memory_limit_apply();
}

void shim_functions_override(void)
{
    php_getenv_handler = shim_function_replace("getenv", ZEND_FN(getenv_with_overlay));
    php_connection_aborted_handler = shim_function_replace("connection_aborted", ZEND_FN(connection_aborted_by_host));
    php_connection_status_handler = shim_function_replace("connection_status", ZEND_FN(connection_status_by_host));
    php_chdir_handler = shim_function_replace("chdir", ZEND_FN(chdir_with_room));
    if (!shim_has_own_umask()) {
        php_umask_handler = shim_function_replace("umask", ZEND_FN(umask_that_asks));
    }
}
