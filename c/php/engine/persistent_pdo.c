/* Persistent connections of PDO, which outlive their objects (PHP 8.3 to 8.5).
 *
 * Pdo\Pgsql::setNoticeCallback() stores the callback in the connection, and a notice in a later request calls freed
 * memory. So a persistent connection takes no callback. PDO::__construct() frees the connection that the object already
 * has, in the wrong way if that one is persistent, and behind its statements if the new one is (internal_construct()). So
 * neither can replace the other; a connection that is not persistent can be opened again. */
#include "compat.h"
#include "php/engine/engine.h"

bool shim_pdo_asks_to_persist(const zend_execute_data *execute_data)
{
    /* PDO_ATTR_PERSISTENT of php_pdo_driver.h. Named arguments may come in any order. */
    enum { PERSISTENT = 12 };
    for (uint32_t i = 1; i <= ZEND_CALL_NUM_ARGS(execute_data); i++) {
        const zval *options = shim_argument(execute_data, i);
        zval *option = options != NULL && Z_TYPE_P(options) == IS_ARRAY
                           ? zend_hash_index_find_deref(Z_ARRVAL_P(options), PERSISTENT)
                           : NULL;
        if (option != NULL && zend_is_true(option)) {
            return true;
        }
    }
    return false;
}

#if __has_include(<ext/pdo/php_pdo_driver.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <ext/pdo/php_pdo_driver.h>
#pragma GCC diagnostic pop

static zif_handler php_construct_handler;
static zif_handler php_set_notice_callback_handler;

const void *shim_pdo_persistent_handle(zend_object *object)
{
    const pdo_dbh_t *connection = php_pdo_dbh_fetch_inner(object);
    return connection != NULL && connection->is_persistent ? connection : NULL;
}

static bool is_open(zend_object *object)
{
    const pdo_dbh_t *connection = php_pdo_dbh_fetch_inner(object);
    return connection != NULL && connection->driver_data != NULL;
}

static ZEND_FUNCTION(construct_once_if_persistent)
{
    zend_object *object = Z_OBJ_P(ZEND_THIS);
    /* An object has a persistent handle also after an attempt to connect has failed. */
    if (shim_pdo_persistent_handle(object) != NULL || (is_open(object) && shim_pdo_asks_to_persist(execute_data))) {
        zend_throw_error(NULL, "PDO::__construct(): a persistent connection can neither be opened again by its object nor "
                               "replace another connection of it; use a new object");
        return;
    }
    php_construct_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static ZEND_FUNCTION(set_notice_callback_unless_persistent)
{
    const bool is_set = ZEND_NUM_ARGS() > 0 && Z_TYPE_P(ZEND_CALL_ARG(execute_data, 1)) != IS_NULL;
    if (is_set && shim_pdo_persistent_handle(Z_OBJ_P(ZEND_THIS)) != NULL) {
        zend_throw_error(NULL, "Pdo\\Pgsql::setNoticeCallback(): a persistent connection cannot have a callback, because it "
                               "outlives the request");
        return;
    }
    php_set_notice_callback_handler(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* In a preloaded class that is not linked, `parent` is the parent's name. */
static bool extends_pdo(const zend_class_entry *class, const zend_class_entry *pdo)
{
    while (class != NULL && class != pdo) {
        class = (class->ce_flags & ZEND_ACC_LINKED) != 0 ? class->parent : NULL;
    }
    return class != NULL;
}

/* Skips the constructors that preloaded classes define. */
static void replace_constructor(zend_function *constructor)
{
    if (constructor != NULL && constructor->type == ZEND_INTERNAL_FUNCTION &&
        constructor->internal_function.handler == php_construct_handler) {
        (void)shim_handler_replace(constructor, ZEND_FN(construct_once_if_persistent));
    }
}

void shim_persistent_pdo_install(void)
{
    const zend_class_entry *pdo = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("pdo"));
    const zend_class_entry *pgsql = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("pdo\\pgsql"));
    if (pgsql != NULL) {
        php_set_notice_callback_handler = shim_handler_replace(
            shim_function_find(&pgsql->function_table, "setnoticecallback"), ZEND_FN(set_notice_callback_unless_persistent));
    }
    if (pdo == NULL || pdo->constructor == NULL) {
        return;
    }
    php_construct_handler = pdo->constructor->internal_function.handler;
    /* `new` and a call by name may have different copies of an inherited constructor. */
    zend_class_entry *class;
    ZEND_HASH_FOREACH_PTR(CG(class_table), class) {
        if (extends_pdo(class, pdo)) {
            replace_constructor(class->constructor);
            replace_constructor(shim_function_find(&class->function_table, "__construct"));
        }
    } ZEND_HASH_FOREACH_END();
}

#else

const void *shim_pdo_persistent_handle(zend_object *object)
{
    (void)object;
    return NULL;
}

void shim_persistent_pdo_install(void)
{
}

#endif
