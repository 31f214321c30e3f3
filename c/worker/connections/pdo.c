/* The state of PDO's objects, from its header for drivers. A PHP that was built without PDO may come without that header;
 * the connection of a statement is then unknown, and the statement counts as a connection that the boot script has
 * opened. */
#include "compat.h"
#include "worker/connections/connections.h"

#if __has_include(<ext/pdo/php_pdo_driver.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <ext/pdo/php_pdo_driver.h>
#pragma GCC diagnostic pop

const zend_object *shim_pdo_of_statement(zend_object *statement)
{
    const zval *connection = &php_pdo_stmt_fetch_object(statement)->database_object_handle;
    return Z_TYPE_P(connection) == IS_OBJECT ? Z_OBJ_P(connection) : NULL;
}

const zend_object *shim_pdo_of_row(zend_object *row)
{
    const pdo_stmt_t *statement = ((const pdo_row_t *)row)->stmt;
    return statement != NULL ? &statement->std : NULL;
}

bool shim_pdo_ends_with(zend_object *object)
{
    const pdo_dbh_t *connection = php_pdo_dbh_fetch_inner(object);
    return connection == NULL || !connection->is_persistent || connection->refcount <= 1;
}

static pdo_dbh_t *open_one(zend_object *object)
{
    pdo_dbh_t *connection = php_pdo_dbh_fetch_inner(object);
    return connection != NULL && connection->driver_data != NULL && connection->methods != NULL ? connection : NULL;
}

bool shim_pdo_is_mysql(zend_object *object)
{
    const pdo_dbh_t *connection = open_one(object);
    return connection != NULL && connection->driver != NULL && strcmp(connection->driver->driver_name, "mysql") == 0;
}

bool shim_pdo_in_transaction(zend_object *object)
{
    pdo_dbh_t *connection = open_one(object);
    if (connection == NULL) {
        return false;
    }
    return connection->methods->in_transaction != NULL ? connection->methods->in_transaction(connection)
                                                       : connection->in_txn;
}

/* The first member of the driver's data. */
void *shim_pdo_sqlite(zend_object *object)
{
    const pdo_dbh_t *connection = open_one(object);
    return connection != NULL && connection->driver != NULL && strcmp(connection->driver->driver_name, "sqlite") == 0
               ? *(void **)connection->driver_data
               : NULL;
}

bool shim_pdo_roll_back(zend_object *object)
{
    pdo_dbh_t *connection = open_one(object);
    if (connection == NULL || connection->methods->rollback == NULL) {
        return false;
    }
    const bool is_done = connection->methods->rollback(connection);
    connection->in_txn = false;
    return is_done && !shim_pdo_in_transaction(object);
}

shim_pdo_state shim_pdo_state_of(zend_object *object)
{
    shim_pdo_state state = {0};
    const pdo_dbh_t *connection = open_one(object);
    if (connection != NULL) {
        memcpy(state.code, connection->error_code, sizeof(state.code));
        state.has_attributes = true;
        state.error_mode = connection->error_mode;
        state.desired_case = connection->desired_case;
        state.oracle_nulls = connection->oracle_nulls;
        state.stringify = connection->stringify;
        state.default_fetch_type = connection->default_fetch_type;
    }
    return state;
}

void shim_pdo_set_state(zend_object *object, shim_pdo_state state)
{
    pdo_dbh_t *connection = open_one(object);
    if (connection != NULL) {
        memcpy(connection->error_code, state.code, sizeof(state.code));
    }
    if (connection != NULL && state.has_attributes) {
        connection->error_mode = state.error_mode;
        connection->desired_case = state.desired_case;
        connection->oracle_nulls = state.oracle_nulls;
        connection->stringify = state.stringify;
        connection->default_fetch_type = state.default_fetch_type;
    }
}

/* A lost connection is in no transaction. If it is persistent, the next constructor opens it again (PQreset()). */
static bool is_known_to_be_in_transaction(pdo_dbh_t *connection)
{
    const int status = shim_libpq_status(*(void **)connection->driver_data);
    return status != SHIM_PG_IDLE && status != SHIM_PG_LOST;
}

void shim_pdo_lose(zend_object *object)
{
    /* The driver of PostgreSQL reports a transaction on a lost connection, so that PDO would refuse to begin another one
     * instead of reporting the loss. All connections of the driver have the same methods: one copy per thread is enough. */
    static __thread struct pdo_dbh_methods methods_of_lost;
    pdo_dbh_t *connection = open_one(object);
    const char *driver = shim_pdo_driver(object);
    if (connection == NULL || driver == NULL) {
        /* It is not open yet. */
        return;
    }
    connection->in_txn = false;
    if (strcmp(driver, "mysql") == 0) {
        shim_mysqlnd_lose(shim_pdo_library_connection(object));
    } else if (strcmp(driver, "pgsql") == 0) {
        methods_of_lost = *connection->methods;
        methods_of_lost.in_transaction = is_known_to_be_in_transaction;
        connection->methods = &methods_of_lost;
    }
}

bool shim_pdo_has_result(zend_object *object)
{
    const pdo_stmt_t *statement = php_pdo_stmt_fetch_object(object);
    return statement->dbh != NULL && statement->executed;
}

const char *shim_pdo_driver(zend_object *object)
{
    const pdo_dbh_t *connection = php_pdo_dbh_fetch_inner(object);
    return connection != NULL && connection->driver != NULL ? connection->driver->driver_name : NULL;
}

void *shim_pdo_library_connection(zend_object *object)
{
    const pdo_dbh_t *connection = open_one(object);
    return connection != NULL ? *(void **)connection->driver_data : NULL;
}

zend_long shim_pdo_row_count(zend_object *object)
{
    return php_pdo_stmt_fetch_object(object)->row_count;
}

#else

#define ABSENT(type, name, result, ...) type name(__VA_ARGS__) { return result; }
#pragma GCC diagnostic ignored "-Wunused-parameter"
ABSENT(const zend_object *, shim_pdo_of_statement, NULL, zend_object *statement)
ABSENT(const zend_object *, shim_pdo_of_row, NULL, zend_object *row)
ABSENT(bool, shim_pdo_ends_with, true, zend_object *object)
ABSENT(bool, shim_pdo_is_mysql, false, zend_object *object)
ABSENT(bool, shim_pdo_in_transaction, false, zend_object *object)
ABSENT(void *, shim_pdo_sqlite, NULL, zend_object *object)
ABSENT(bool, shim_pdo_roll_back, false, zend_object *object)
ABSENT(shim_pdo_state, shim_pdo_state_of, (shim_pdo_state){0}, zend_object *object)
ABSENT(void, shim_pdo_set_state, , zend_object *object, shim_pdo_state state)
ABSENT(void, shim_pdo_lose, , zend_object *object)
ABSENT(bool, shim_pdo_has_result, false, zend_object *object)
ABSENT(const char *, shim_pdo_driver, NULL, zend_object *object)
ABSENT(void *, shim_pdo_library_connection, NULL, zend_object *object)
ABSENT(zend_long, shim_pdo_row_count, 0, zend_object *object)

#endif
