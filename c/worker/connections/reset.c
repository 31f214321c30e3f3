/* Resets a connection for the next request, by kind.
 *
 * Where the extension's structs are public, they show what is open, and nothing is sent without need. Elsewhere, the
 * extension's functions are called: those of the class itself, even if a script's subclass overrides them. */
#include "compat.h"
#include "php/engine/engine.h"
#include "worker/connections/connections.h"
#include "worker/connections/owners/owners.h"

/* ---- calls of an extension's functions ---- */

static bool call_method_with(const shim_connection *connection, const char *name, zval *result, zval *arguments, uint32_t count)
{
    return shim_builtin_call(shim_kind_class(connection->kind), name, connection->object, result, arguments, count);
}

static bool call_method(const shim_connection *connection, const char *name, zval *result)
{
    return call_method_with(connection, name, result, NULL, 0);
}

static bool call_function(const char *name, zend_object *object, zval *result)
{
    zval argument;
    ZVAL_OBJ(&argument, object);
    return shim_builtin_call(NULL, name, NULL, result, &argument, 1);
}

static bool is_done(bool is_called, zval *result)
{
    const bool is_true = is_called && Z_TYPE_P(result) != IS_FALSE;
    zval_ptr_dtor(result);
    return is_true;
}

static bool method_succeeds(const shim_connection *connection, const char *name)
{
    zval result;
    return is_done(call_method(connection, name, &result), &result);
}

/* Calls the method of all statements, or results, of the connection that pass the test. Clears their parent, by which they
 * are found. */
static void call_on_all(const shim_connection *connection, bool (*test)(const shim_connection *, const void *),
                        const char *name)
{
    for (shim_connection *one = NULL; (one = shim_connection_find_if(test, connection)) != NULL;) {
        (void)method_succeeds(one, name);
        zend_clear_exception();
        shim_connection_set_parent(one, NULL);
    }
}

static bool function_succeeds(const char *name, zend_object *object)
{
    zval result;
    return is_done(call_function(name, object, &result), &result);
}

bool shim_connection_execute(shim_connection *connection, const char *statement)
{
    const bool is_pdo = connection->kind == SHIM_KIND_PDO;
    const char *name = connection->kind == SHIM_KIND_PGSQL ? "pg_query" : "mysqli_query";
    zval arguments[2], result;
    ZVAL_OBJ(&arguments[0], connection->object);
    ZVAL_STRING(&arguments[1], statement);
    const bool is_called = is_pdo ? call_method_with(connection, "exec", &result, &arguments[1], 1)
                                  : shim_builtin_call(NULL, name, NULL, &result, arguments, 2);
    zval_ptr_dtor(&arguments[1]);
    return is_done(is_called, &result);
}

/* Returns the number that a function has returned; -1 for any other result. */
static zend_long number_from(bool is_called, zval *result)
{
    const zend_long number = is_called && Z_TYPE_P(result) == IS_LONG ? Z_LVAL_P(result) : -1;
    zval_ptr_dtor(result);
    return number;
}

/* ---- PDO ---- */

/* SQLite must not reset a statement that is executing: a fiber may be suspended in a function that it calls. */
static void end_sqlite_statements(const shim_connection *connection, void *database)
{
    if (connection->owned.uses == 0) {
        shim_sqlite_end_statements(database);
    }
}

/* Whether a result may keep the connection from being used: its rows are still with the server, or with SQLite. Rows that a
 * driver has buffered belong to the script. The state of other drivers is unknown. */
static bool may_have_unread_rows(const shim_connection *connection)
{
    void *library = shim_pdo_library_connection(connection->object);
    const char *driver = shim_pdo_driver(connection->object);
    if (library == NULL || driver == NULL) {
        return true;
    }
    return strcmp(driver, "mysql") == 0   ? !shim_mysqlnd_is_idle(library)
           : strcmp(driver, "pgsql") == 0 ? shim_libpq_status(library) == SHIM_PG_ACTIVE
                                          : true;
}

bool shim_pdo_is_executed_statement(const shim_connection *one, const void *connection)
{
    const zend_object *of =
        one->kind == SHIM_KIND_PDO_STATEMENT && one->object != NULL ? shim_pdo_of_statement(one->object) : NULL;
    return of != NULL && shim_connection_find(of) == connection && shim_pdo_has_result(one->object);
}

/* Drivers count the rows that they buffer: of several results, the first one to close is one without a count. */
static bool is_uncounted_result(const shim_connection *one, const void *connection)
{
    return shim_pdo_is_executed_statement(one, connection) && shim_pdo_row_count(one->object) <= 0;
}

static bool reset_pdo(shim_connection *connection)
{
    while (may_have_unread_rows(connection)) {
        shim_connection *one = shim_connection_find_if(is_uncounted_result, connection);
        one = one != NULL ? one : shim_connection_find_if(shim_pdo_is_executed_statement, connection);
        if (one == NULL) {
            break;
        }
        if (!method_succeeds(one, "closecursor") || (one->object != NULL && shim_pdo_has_result(one->object))) {
            return false;
        }
    }
    if (shim_pdo_in_transaction(connection->object) && !shim_pdo_roll_back(connection->object)) {
        return false;
    }
    shim_blobs_end(connection);
    end_sqlite_statements(connection, shim_pdo_sqlite(connection->object));
    return true;
}

/* ---- mysqli ---- */

static bool is_unread_result(const shim_connection *one, const void *connection)
{
    return one->kind == SHIM_KIND_MYSQLI_RESULT && one->parent == connection && shim_mysqli_is_unread(one->object);
}

static bool is_statement_of(const shim_connection *one, const void *connection)
{
    return one->kind == SHIM_KIND_MYSQLI_STATEMENT && one->parent == connection;
}

static bool reset_mysqli(shim_connection *connection)
{
    zend_object *object = connection->object;
    for (shim_connection *one = NULL; (one = shim_connection_find_if(is_unread_result, connection)) != NULL;) {
        if (!function_succeeds("mysqli_free_result", one->object)) {
            return false;
        }
    }
    if (shim_mysqli_awaits_answer(object)) {
        /* An asynchronous query. Drops its rows. */
        (void)function_succeeds("mysqli_reap_async_query", object);
        zend_clear_exception();
    } else if (!shim_mysqli_is_idle(object)) {
        /* Unread rows of a statement can only be freed through it, and mysqli does not show whether there are any. */
        call_on_all(connection, is_statement_of, "free_result");
    }
    while (!shim_mysqli_is_idle(object)) {
        /* Buffers the rows of the next unread result, which are dropped; fails if it has none. */
        (void)function_succeeds("mysqli_store_result", object);
        zend_clear_exception();
        if (!shim_mysqli_is_idle(object) && !function_succeeds("mysqli_next_result", object)) {
            return false;
        }
    }
    return !shim_mysqli_in_transaction(object) || function_succeeds("mysqli_rollback", object);
}

/* ---- PgSql ---- */

/* Returns -1 for a closed connection, on which the function throws. */
static zend_long pgsql_status(zend_object *object)
{
    zval result;
    const zend_long status = number_from(call_function("pg_transaction_status", object, &result), &result);
    zend_clear_exception();
    return status;
}

/* pg_query() first reads pending results of asynchronous queries, and ends a copy (libpq.c). */
static bool roll_back_pgsql(shim_connection *connection)
{
    return shim_connection_execute(connection, "ROLLBACK") && pgsql_status(connection->object) == SHIM_PG_IDLE;
}

static bool reset_pgsql(shim_connection *connection)
{
    (void)function_succeeds("pg_untrace", connection->object);
    zend_clear_exception();
    switch (pgsql_status(connection->object)) {
    case SHIM_PG_ACTIVE:
    case SHIM_PG_IN_TRANSACTION:
    case SHIM_PG_IN_FAILED:
        return roll_back_pgsql(connection);
    default:
        /* Idle, or closed, or lost already. */
        return true;
    }
}

/* ---- Redis ---- */

static bool redis_is_in_block(shim_connection *connection)
{
    zval result;
    /* getMode() would connect one that is not connected. */
    if (connection->kind == SHIM_KIND_REDIS && !method_succeeds(connection, "isconnected")) {
        return false;
    }
    return number_from(call_method(connection, "getmode", &result), &result) > 0;
}

static bool reset_redis(shim_connection *connection)
{
    if (connection->is_subscribed) {
        return false;
    }
    if (connection->is_in_block || redis_is_in_block(connection)) {
        connection->is_watching = connection->is_in_block = false;
        return method_succeeds(connection, "discard");
    }
    zend_clear_exception();
    if (connection->is_watching) {
        connection->is_watching = false;
        return method_succeeds(connection, "unwatch");
    }
    return true;
}

/* ---- SQLite3 ---- */

static bool is_sqlite_result_of(const shim_connection *one, const void *connection)
{
    return one->kind == SHIM_KIND_SQLITE_RESULT && one->parent == connection;
}

static bool reset_sqlite(shim_connection *connection)
{
    void *database = shim_sqlite_of(connection->object);
    if (shim_sqlite_is_busy(database)) {
        /* A result that is only reset would start again at its first row; a finalized one reports that it is closed. */
        call_on_all(connection, is_sqlite_result_of, "finalize");
    }
    shim_blobs_end(connection);
    end_sqlite_statements(connection, database);
    return shim_sqlite_roll_back(database);
}

/* ---- all kinds ---- */

bool shim_connection_reset(shim_connection *connection)
{
    switch (connection->kind) {
    case SHIM_KIND_PDO:
        return reset_pdo(connection);
    case SHIM_KIND_MYSQLI:
        return reset_mysqli(connection);
    case SHIM_KIND_PGSQL:
        return reset_pgsql(connection);
    case SHIM_KIND_REDIS:
    case SHIM_KIND_REDIS_ARRAY:
    case SHIM_KIND_REDIS_CLUSTER:
        return reset_redis(connection);
    case SHIM_KIND_MEMCACHED:
        return !connection->is_subscribed;
    case SHIM_KIND_SQLITE:
        return reset_sqlite(connection);
    default:
        return true;
    }
}

bool shim_connection_unlock(shim_connection *connection)
{
    if (connection->locked_by == 0) {
        return true;
    }
    connection->locked_by = 0;
    const bool is_mysql = connection->kind == SHIM_KIND_MYSQLI ||
                          (connection->kind == SHIM_KIND_PDO && shim_pdo_is_mysql(connection->object));
    if (!is_mysql) {
        return shim_connection_execute(connection, "SELECT pg_advisory_unlock_all()");
    }
    return shim_connection_execute(connection, "UNLOCK TABLES") &&
           shim_connection_execute(connection, "DO RELEASE_ALL_LOCKS()");
}

bool shim_connection_in_transaction(shim_connection *connection)
{
    zend_long status = 0;
    switch (connection->kind) {
    case SHIM_KIND_PDO:
        return shim_pdo_in_transaction(connection->object);
    case SHIM_KIND_MYSQLI:
        return shim_mysqli_is_open(connection->object) && shim_mysqli_in_transaction(connection->object);
    case SHIM_KIND_PGSQL:
        status = pgsql_status(connection->object);
        return status == SHIM_PG_IN_TRANSACTION || status == SHIM_PG_IN_FAILED;
    case SHIM_KIND_REDIS:
    case SHIM_KIND_REDIS_ARRAY:
    case SHIM_KIND_REDIS_CLUSTER: {
        const bool is_in_block =
            connection->is_watching || connection->is_subscribed || redis_is_in_block(connection);
        zend_clear_exception();
        return is_in_block;
    }
    case SHIM_KIND_MEMCACHED:
        /* Requested values that were not fetched. */
        return connection->is_subscribed;
    case SHIM_KIND_SQLITE:
        return shim_sqlite_in_transaction(shim_sqlite_of(connection->object));
    default:
        return false;
    }
}

/* PDO::ATTR_SERVER_INFO asks MySQL; PDO::ATTR_CONNECTION_STATUS is libpq's knowledge. */
static bool pdo_is_lost(const shim_connection *connection)
{
    const bool is_mysql = shim_pdo_is_mysql(connection->object);
    zval attribute, result;
    ZVAL_LONG(&attribute, is_mysql ? 6 : 7);
    const bool is_called = call_method_with(connection, "getattribute", &result, &attribute, 1);
    const bool is_bad = is_called && Z_TYPE(result) == IS_STRING && strncmp(Z_STRVAL(result), "Bad", 3) == 0;
    return is_done(is_called, &result) ? is_bad : is_mysql;
}

bool shim_connection_is_lost(const shim_connection *connection)
{
    bool is_lost = false;
    zend_clear_exception();
    if (connection->kind == SHIM_KIND_PDO) {
        is_lost = pdo_is_lost(connection);
    } else if (connection->kind == SHIM_KIND_MYSQLI) {
        is_lost = !shim_mysqli_is_open(connection->object);
    } else if (connection->kind == SHIM_KIND_PGSQL) {
        is_lost = pgsql_status(connection->object) > SHIM_PG_IN_FAILED;
    }
    zend_clear_exception();
    return is_lost;
}

bool shim_connection_reconnects(const shim_connection *connection)
{
    return connection->owned.is_leased ||
           (connection->kind >= SHIM_KIND_REDIS && connection->kind <= SHIM_KIND_MEMCACHED);
}

void shim_connection_close(shim_connection *connection)
{
    connection->is_subscribed = connection->is_watching = connection->is_in_block = false;
    /* The next user, and a reader in progress, find the connection lost. */
    shim_socket_shut_down(&connection->owned);
    shim_sqlite_end_all(shim_sqlite_database(connection));
    switch (connection->kind) {
    case SHIM_KIND_REDIS:
    case SHIM_KIND_REDIS_ARRAY:
    case SHIM_KIND_REDIS_CLUSTER:
    case SHIM_KIND_REDIS_SENTINEL:
        /* They reconnect by themselves. */
        (void)method_succeeds(connection, "close");
        break;
    case SHIM_KIND_MEMCACHED:
        (void)method_succeeds(connection, "quit");
        break;
    case SHIM_KIND_MYSQLI:
        shim_mysqli_lose(connection->object);
        break;
    case SHIM_KIND_PDO:
        if (connection->object != NULL) {
            shim_pdo_lose(connection->object);
        }
        break;
    default:
        break;
    }
    zend_clear_exception();
}
