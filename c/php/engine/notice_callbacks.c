/* Callbacks for notices of PostgreSQL.
 *
 * Pdo\Pgsql::setNoticeCallback() stores the callback in the connection. A persistent connection outlives the request, and
 * the next notice calls freed memory (PHP 8.4.24). So it takes no callback. */
#include "compat.h"
#include "php/engine/engine.h"

/* PDO_ATTR_PERSISTENT of ext/pdo/php_pdo_driver.h, which a PHP without PDO lacks. */
enum { ATTRIBUTE_PERSISTENT = 12 };

static zif_handler php_set_notice_callback_handler;

static bool is_persistent(zend_object *connection)
{
    zval attribute, result;
    ZVAL_LONG(&attribute, ATTRIBUTE_PERSISTENT);
    return shim_builtin_call("pdo", "getattribute", connection, &result, &attribute, 1) && Z_TYPE(result) == IS_TRUE;
}

static ZEND_FUNCTION(set_notice_callback_unless_persistent)
{
    const bool is_set = ZEND_NUM_ARGS() > 0 && Z_TYPE_P(ZEND_CALL_ARG(execute_data, 1)) != IS_NULL;
    if (is_set && is_persistent(Z_OBJ_P(ZEND_THIS))) {
        zend_throw_error(NULL, "Pdo\\Pgsql::setNoticeCallback(): a persistent connection cannot have a callback, because it "
                               "outlives the request");
    }
    if (EG(exception) == NULL) {
        php_set_notice_callback_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    }
}

void shim_notice_callbacks_install(void)
{
    const zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("pdo\\pgsql"));
    if (class != NULL) {
        zend_function *method = shim_function_find(&class->function_table, "setnoticecallback");
        php_set_notice_callback_handler = shim_handler_replace(method, ZEND_FN(set_notice_callback_unless_persistent));
    }
}
