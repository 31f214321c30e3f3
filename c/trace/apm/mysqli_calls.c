/* Calls of mysqli, by functions and methods. Its headers, and those of mysqlnd, declare connections and statements. */
#include "compat.h"
#include "trace/apm/apm.h"

#if __has_include(<ext/mysqli/php_mysqli_structs.h>) && __has_include(<ext/mysqlnd/mysqlnd.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include <ext/mysqli/php_mysqli_structs.h>
#include <ext/mysqlnd/mysqlnd_connection.h>
#include <ext/mysqlnd/mysqlnd_ps.h>
#include <zend_weakrefs.h>
#pragma GCC diagnostic pop

static bool is_of(const zend_object *object, const char *name)
{
    const zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), name, strlen(name));
    return object != NULL && class != NULL && instanceof_function(object->ce, class);
}

static const MYSQLI_RESOURCE *resource_of(zend_object *object)
{
    const MYSQLI_RESOURCE *resource = php_mysqli_fetch_object(object)->ptr;
    return resource != NULL && resource->ptr != NULL ? resource : NULL;
}

static const MYSQLND_STMT_DATA *statement_of(zend_object *object)
{
    const MYSQLI_RESOURCE *resource = is_of(object, "mysqli_stmt") ? resource_of(object) : NULL;
    const MY_STMT *statement = resource != NULL ? resource->ptr : NULL;
    return statement != NULL && statement->stmt != NULL ? statement->stmt->data : NULL;
}

/* Query text by statement object, freed with the object: mysqli does not keep it. */
static __thread HashTable texts;
static __thread bool has_texts;

static void remember(zend_object *statement, zend_string *text)
{
    zval entry;
    if (!has_texts) {
        zend_hash_init(&texts, 8, NULL, ZVAL_PTR_DTOR, true);
        has_texts = true;
    }
    (void)zend_weakrefs_hash_del(&texts, statement);
    ZVAL_STR_COPY(&entry, text);
    (void)zend_weakrefs_hash_add(&texts, statement, &entry);
}

static const zend_string *text_of(zend_object *object)
{
    const zval *text = has_texts ? zend_hash_index_find(&texts, zend_object_to_weakref_key(object)) : NULL;
    return text != NULL ? Z_STR_P(text) : NULL;
}

void shim_mysqli_calls_forget(void)
{
    if (has_texts) {
        zend_hash_destroy(&texts);
        has_texts = false;
    }
}

static const MYSQLND_CONN_DATA *connection_of(zend_object *object)
{
    const MYSQLND_STMT_DATA *statement = statement_of(object);
    if (statement != NULL) {
        return statement->conn;
    }
    const MYSQLI_RESOURCE *resource = is_of(object, "mysqli") ? resource_of(object) : NULL;
    const MY_MYSQL *connection = resource != NULL ? resource->ptr : NULL;
    return connection != NULL && connection->mysql != NULL ? connection->mysql->data : NULL;
}

static void set_address(shim_client_call *call, shim_view host, uint32_t port, shim_view socket, shim_view database)
{
    if (socket.length > 0) {
        call->host = socket;
    } else {
        call->host = host;
        call->port = (uint16_t)port;
    }
    call->database = database;
}

static void set_address_of(shim_client_call *call, const MYSQLND_CONN_DATA *connection)
{
    if (connection != NULL) {
        set_address(call, shim_view_of(connection->hostname.s, connection->hostname.l), connection->port,
                    shim_view_of(connection->unix_socket.s, connection->unix_socket.l),
                    shim_view_of(connection->connect_or_select_db.s, connection->connect_or_select_db.l));
    }
}

/* Returns the number of arguments before the others: 1 for functions, whose first argument is the connection; 0 for
 * methods. */
static uint32_t offset_of(const shim_observed *observed)
{
    return observed->observer->class_name == NULL ? 1 : 0;
}

static void describe(shim_observed *observed, shim_client_call *call)
{
    zend_object *object = shim_observed_subject(observed);
    const MYSQLND_CONN_DATA *connection = object != NULL ? connection_of(object) : NULL;
    set_address_of(call, connection);
    call->has_other_backslash =
        connection != NULL &&
        (UPSERT_STATUS_GET_SERVER_STATUS(connection->upsert_status) & SERVER_STATUS_NO_BACKSLASH_ESCAPES) != 0;
    if (object != NULL && observed->observer->operation == NULL && observed->observer->text == 0) {
        const zend_string *text = text_of(object);
        call->text = text != NULL ? shim_view_of_string(text) : call->text;
        /* The statement was prepared while no recording took place. */
        call->operation = text != NULL ? call->operation : shim_view_of("EXECUTE", sizeof("EXECUTE") - 1);
    }
}

/* `new mysqli_stmt($connection, $text)` prepares the text, if there is one. */
static void describe_constructing(shim_observed *observed, shim_client_call *call)
{
    const zval *connection = shim_observed_argument(observed, 1), *text = shim_observed_argument(observed, 2);
    observed->is_silent = text == NULL || Z_TYPE_P(text) == IS_NULL;
    if (connection != NULL && Z_TYPE_P(connection) == IS_OBJECT) {
        set_address_of(call, connection_of(Z_OBJ_P(connection)));
    }
}

/* `mysqli_execute_query()` without values may have them in its text. */
static void describe_executing(shim_observed *observed, shim_client_call *call)
{
    const zval *values = shim_observed_argument(observed, observed->observer->text + 1);
    call->is_prepared = values != NULL && Z_TYPE_P(values) == IS_ARRAY;
    describe(observed, call);
}

/* Host, user, password, database, port, socket. */
static void describe_connecting(shim_observed *observed, shim_client_call *call)
{
    const bool has_object = strstr(observed->observer->name, "real_connect") != NULL;
    const uint32_t offset = has_object ? offset_of(observed) : 0;
    const zval *port = shim_observed_argument(observed, offset + 5);
    shim_view host = shim_observed_text(observed, offset + 1);
    if (host.length > 2 && memcmp(host.bytes, "p:", 2) == 0) {
        host = shim_view_of(host.bytes + 2, host.length - 2);
    }
    set_address(call, host, port != NULL && Z_TYPE_P(port) == IS_LONG ? (uint32_t)Z_LVAL_P(port) : 0,
                shim_observed_text(observed, offset + 6), shim_observed_text(observed, offset + 4));
}

static void judge(shim_observed *observed, shim_client_end *end)
{
    zval held;
    if (observed->thrown != NULL) {
        const zval *code = instanceof_function(observed->thrown->ce, zend_ce_exception) &&
                                   zend_string_equals_literal(observed->thrown->ce->name, "mysqli_sql_exception")
                               ? zend_read_property(zend_ce_exception, observed->thrown, ZEND_STRL("code"), true, &held)
                               : NULL;
        if (code != NULL && Z_TYPE_P(code) == IS_LONG && Z_LVAL_P(code) != 0) {
            end->code = shim_observed_number(observed, Z_LVAL_P(code));
        }
        return;
    }
    if (Z_TYPE_P(observed->return_value) != IS_FALSE) {
        return;
    }
    zend_object *object = shim_observed_subject(observed);
    const MYSQLND_STMT_DATA *statement = object != NULL ? statement_of(object) : NULL;
    const MYSQLND_CONN_DATA *connection = object != NULL ? connection_of(object) : NULL;
    const unsigned code = statement != NULL && statement->error_info->error_no != 0 ? statement->error_info->error_no
                          : connection != NULL                                      ? connection->error_info->error_no
                                                                                    : 0;
    end->failed = true;
    if (code != 0) {
        end->code = shim_observed_number(observed, (zend_long)code);
    }
}

/* Remembers the text of the prepared statement: the returned object, or the subject of a constructor, which returns
 * nothing. */
static void judge_preparing(shim_observed *observed, shim_client_end *end)
{
    const zval *text = shim_observed_argument(observed, observed->observer->text);
    const zval *made = observed->return_value;
    zend_object *object = Z_TYPE_P(made) == IS_OBJECT ? Z_OBJ_P(made) : shim_observed_subject(observed);
    const bool is_prepared = observed->thrown == NULL && Z_TYPE_P(made) != IS_FALSE;
    if (is_prepared && object != NULL && text != NULL && Z_TYPE_P(text) == IS_STRING) {
        remember(object, Z_STR_P(text));
    }
    judge(observed, end);
}

#define PREPARING(class_name, name, text) \
    {class_name, name, SHIM_CLIENT_SQL, "mysql", "PREPARE", text, true, describe, judge_preparing}
#define SQL(class_name, name, operation, text, is_prepared, describe) \
    {class_name, name, SHIM_CLIENT_SQL, "mysql", operation, text, is_prepared, describe, judge}
/* Both the function and the method. */
#define BOTH(name, operation, text, is_prepared, describe) \
    SQL(NULL, "mysqli_" name, operation, (text) != 0 ? (text) + 1 : 0, is_prepared, describe), \
        SQL("mysqli", name, operation, text, is_prepared, describe)

static const shim_observer rows[] = {
    SQL(NULL, "mysqli_connect", "CONNECT", 0, false, describe_connecting),
    SQL("mysqli", "__construct", "CONNECT", 0, false, describe_connecting),
    SQL("mysqli", "connect", "CONNECT", 0, false, describe_connecting),
    BOTH("real_connect", "CONNECT", 0, false, describe_connecting),
    BOTH("query", NULL, 1, false, describe),
    BOTH("real_query", NULL, 1, false, describe),
    BOTH("multi_query", NULL, 1, false, describe),
    BOTH("execute_query", NULL, 1, true, describe_executing),
    PREPARING(NULL, "mysqli_prepare", 2),
    PREPARING("mysqli", "prepare", 1),
    PREPARING(NULL, "mysqli_stmt_prepare", 2),
    PREPARING("mysqli_stmt", "prepare", 1),
    {"mysqli_stmt", "__construct", SHIM_CLIENT_SQL, "mysql", "PREPARE", 2, true, describe_constructing, judge_preparing},
    BOTH("begin_transaction", "BEGIN", 0, false, describe),
    BOTH("commit", "COMMIT", 0, false, describe),
    BOTH("rollback", "ROLLBACK", 0, false, describe),
    SQL(NULL, "mysqli_stmt_execute", NULL, 0, true, describe),
    SQL(NULL, "mysqli_execute", NULL, 0, true, describe),
    SQL("mysqli_stmt", "execute", NULL, 0, true, describe),
};

const shim_observers shim_mysqli_calls = {rows, SHIM_COUNT(rows), NULL};

#else

const shim_observers shim_mysqli_calls = {NULL, 0, NULL};

void shim_mysqli_calls_forget(void)
{
}

#endif
