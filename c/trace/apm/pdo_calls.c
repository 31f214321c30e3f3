/* Calls of PDO, whose header for drivers declares connections and statements. A PHP without PDO may lack the header;
 * then there are no such calls. */
#include "compat.h"
#include "trace/apm/apm.h"

#if __has_include(<ext/pdo/php_pdo_driver.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <ext/pdo/php_pdo_driver.h>
#pragma GCC diagnostic pop

static bool is_statement(const shim_observed *observed)
{
    return strcmp(observed->observer->class_name, "pdostatement") == 0;
}

static pdo_stmt_t *statement_of(const shim_observed *observed)
{
    zend_object *object = shim_observed_subject(observed);
    return object != NULL && is_statement(observed) ? php_pdo_stmt_fetch_object(object) : NULL;
}

static pdo_dbh_t *connection_of(const shim_observed *observed)
{
    zend_object *object = shim_observed_subject(observed);
    const pdo_stmt_t *statement = statement_of(observed);
    pdo_dbh_t *connection =
        object == NULL ? NULL : statement != NULL ? statement->dbh : php_pdo_dbh_fetch_inner(object);
    return connection != NULL && connection->driver != NULL && connection->driver_data != NULL ? connection : NULL;
}

/* Whether the server does not treat a backslash as it does by default: if it escapes, quoting doubles it. */
static bool has_other_backslash(pdo_dbh_t *connection)
{
    const bool is_mysql = strcmp(connection->driver->driver_name, "mysql") == 0;
    if ((!is_mysql && strcmp(connection->driver->driver_name, "pgsql") != 0) || connection->methods->quoter == NULL) {
        return false;
    }
    zend_string *quoted = connection->methods->quoter(connection, ZSTR_CHAR('\\'), PDO_PARAM_STR);
    if (quoted == NULL) {
        return false;
    }
    const char *backslash = memchr(ZSTR_VAL(quoted), '\\', ZSTR_LEN(quoted));
    const bool escapes = backslash != NULL && backslash[1] == '\\';
    zend_string_release(quoted);
    return escapes != is_mysql;
}

static void describe(shim_observed *observed, shim_client_call *call)
{
    pdo_dbh_t *connection = connection_of(observed);
    const pdo_stmt_t *statement = statement_of(observed);
    if (connection != NULL) {
        call->has_other_backslash = shim_observed_has_backslash(call) && has_other_backslash(connection);
        call->system = shim_view_of(connection->driver->driver_name, connection->driver->driver_name_len);
        call->source = shim_view_of(connection->data_source,
                                    connection->data_source != NULL ? connection->data_source_len : 0);
    }
    if (statement != NULL && statement->query_string != NULL) {
        call->text = shim_view_of_string(statement->query_string);
    }
}

/* `new PDO("driver:parameters of the driver")`. */
static void describe_connecting(shim_observed *observed, shim_client_call *call)
{
    const shim_view name = shim_observed_text(observed, 1);
    const char *colon = name.length > 0 ? memchr(name.bytes, ':', name.length) : NULL;
    if (colon != NULL) {
        const size_t driver = (size_t)(colon - name.bytes);
        call->system = shim_view_of(name.bytes, driver);
        call->source = shim_view_of(colon + 1, name.length - driver - 1);
    }
}

/* Reads a code from the array of errorInfo(): a code of PDO, one of the driver, and a message. */
static void read_code(shim_observed *observed, zval *info, bool is_of_driver, shim_client_end *end)
{
    const zval *code = Z_TYPE_P(info) == IS_ARRAY ? zend_hash_index_find(Z_ARRVAL_P(info), is_of_driver ? 1 : 0) : NULL;
    if (code != NULL && Z_TYPE_P(code) == IS_LONG) {
        end->code = shim_observed_number(observed, Z_LVAL_P(code));
    } else if (code != NULL && Z_TYPE_P(code) == IS_STRING && Z_STRLEN_P(code) < sizeof(observed->text)) {
        memcpy(observed->text, Z_STRVAL_P(code), Z_STRLEN_P(code));
        end->code = shim_view_of(observed->text, Z_STRLEN_P(code));
    }
}

/* Whether the driver's codes are useful. PostgreSQL's own are SQLSTATEs; its driver's only tell where an error comes
 * from. */
static bool has_codes(const pdo_dbh_t *connection)
{
    return connection == NULL || strcmp(connection->driver->driver_name, "pgsql") != 0;
}

/* Returns the code that errorCode() returns: query() leaves a failed statement with the connection. */
static const pdo_error_type *code_of(const pdo_dbh_t *connection, const pdo_stmt_t *statement)
{
    if (statement == NULL && connection != NULL) {
        statement = connection->query_stmt;
    }
    return statement != NULL ? &statement->error_code : connection != NULL ? &connection->error_code : NULL;
}

static void judge(shim_observed *observed, shim_client_end *end)
{
    pdo_dbh_t *connection = connection_of(observed);
    pdo_stmt_t *statement = statement_of(observed);
    if (observed->thrown != NULL) {
        zval held;
        if (zend_string_equals_literal(observed->thrown->ce->name, "PDOException")) {
            const shim_view name = shim_observed_text(observed, 1);
            const bool is_pgsql = connection == NULL && name.length > 6 && memcmp(name.bytes, "pgsql:", 6) == 0;
            read_code(observed, shim_observed_thrown(observed, "errorInfo", &held), has_codes(connection) && !is_pgsql, end);
        }
        return;
    }
    const pdo_error_type *code = code_of(connection, statement);
    if (code == NULL || Z_TYPE_P(observed->return_value) != IS_FALSE || strcmp(*code, PDO_ERR_NONE) == 0 || **code == '\0') {
        return;
    }
    end->failed = true;
    if (connection != NULL && has_codes(connection) && connection->methods->fetch_err != NULL) {
        zval *info = &observed->held[0];
        array_init(info);
        add_next_index_string(info, *code);
        connection->methods->fetch_err(connection, statement != NULL ? statement : connection->query_stmt, info);
        read_code(observed, info, zend_hash_num_elements(Z_ARRVAL_P(info)) > 1, end);
    } else {
        end->code = shim_view_of_cstr(*code);
    }
}

#define CONNECTING(name) {"pdo", name, SHIM_CLIENT_SQL, "", "CONNECT", 0, false, describe_connecting, judge}
#define TRANSACTION(name, operation) {"pdo", name, SHIM_CLIENT_SQL, "", operation, 0, false, describe, judge}

static const shim_observer rows[] = {
    CONNECTING("__construct"),
    CONNECTING("connect"),
    {"pdo", "query", SHIM_CLIENT_SQL, "", NULL, 1, false, describe, judge},
    {"pdo", "exec", SHIM_CLIENT_SQL, "", NULL, 1, false, describe, judge},
    {"pdo", "prepare", SHIM_CLIENT_SQL, "", "PREPARE", 1, true, describe, judge},
    TRANSACTION("begintransaction", "BEGIN"),
    TRANSACTION("commit", "COMMIT"),
    TRANSACTION("rollback", "ROLLBACK"),
    {"pdostatement", "execute", SHIM_CLIENT_SQL, "", NULL, 0, true, describe, judge},
};

const shim_observers shim_pdo_calls = {rows, SHIM_COUNT(rows), NULL};

#else

const shim_observers shim_pdo_calls = {NULL, 0, NULL};

#endif
