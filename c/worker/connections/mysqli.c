/* The state of mysqli's objects, from the headers of mysqli and mysqlnd. Without these headers, a connection counts as one
 * in a transaction, which is rolled back. */
#include "compat.h"
#include "worker/connections/connections.h"

#if __has_include(<ext/mysqli/php_mysqli_structs.h>) && __has_include(<ext/mysqlnd/mysqlnd.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include <ext/mysqli/php_mysqli_structs.h>
#include <ext/mysqlnd/mysqlnd_connection.h>
#pragma GCC diagnostic pop

static MYSQLND_CONN_DATA *data_of(zend_object *object)
{
    const MYSQLI_RESOURCE *resource = php_mysqli_fetch_object(object)->ptr;
    if (resource == NULL || resource->status < MYSQLI_STATUS_VALID || resource->ptr == NULL) {
        return NULL;
    }
    const MY_MYSQL *connection = resource->ptr;
    MYSQLND_CONN_DATA *data = connection->mysql != NULL ? connection->mysql->data : NULL;
    return data != NULL && data->vio != NULL && GET_CONNECTION_STATE(&data->state) > CONN_ALLOCED &&
                   GET_CONNECTION_STATE(&data->state) < CONN_QUIT_SENT
               ? data
               : NULL;
}

bool shim_mysqli_is_open(zend_object *object)
{
    return data_of(object) != NULL;
}

bool shim_mysqli_in_transaction(zend_object *object)
{
    const MYSQLND_CONN_DATA *data = data_of(object);
    return data != NULL && (data->upsert_status->server_status & SERVER_STATUS_IN_TRANS) != 0;
}

bool shim_mysqli_is_idle(zend_object *object)
{
    const MYSQLND_CONN_DATA *data = data_of(object);
    return data == NULL || GET_CONNECTION_STATE(&data->state) == CONN_READY;
}

bool shim_mysqli_awaits_answer(zend_object *object)
{
    const MYSQLND_CONN_DATA *data = data_of(object);
    return data != NULL && GET_CONNECTION_STATE(&data->state) == CONN_QUERY_SENT;
}

static void lose(MYSQLND_CONN_DATA *data)
{
    if (data != NULL) {
        SET_CONNECTION_STATE(&data->state, CONN_QUIT_SENT);
        data->upsert_status->server_status &= ~(unsigned)SERVER_STATUS_IN_TRANS;
    }
}

void shim_mysqli_lose(zend_object *object)
{
    lose(data_of(object));
}

void shim_mysqlnd_lose(void *connection)
{
    const MYSQLND *mysql = connection;
    lose(mysql != NULL ? mysql->data : NULL);
}

bool shim_mysqli_is_unread(zend_object *result)
{
    const MYSQLI_RESOURCE *resource = php_mysqli_fetch_object(result)->ptr;
    const MYSQLND_RES *rows = resource != NULL ? resource->ptr : NULL;
    return rows != NULL && rows->unbuf != NULL && !rows->unbuf->eof_reached;
}

void *shim_mysqli_library_connection(zend_object *object)
{
    const MYSQLI_RESOURCE *resource = php_mysqli_fetch_object(object)->ptr;
    return data_of(object) != NULL ? ((const MY_MYSQL *)resource->ptr)->mysql : NULL;
}

void shim_mysqlnd_read_figures(const void *connection, shim_mysqlnd_figures *figures)
{
    const MYSQLND *mysql = connection;
    const MYSQLND_CONN_DATA *data = mysql != NULL ? mysql->data : NULL;
    if (data == NULL) {
        return;
    }
    figures->affected_rows = data->upsert_status->affected_rows;
    figures->last_insert_id = data->upsert_status->last_insert_id;
    figures->warning_count = data->upsert_status->warning_count;
    figures->field_count = data->field_count;
    figures->error = data->error_info->error_no;
    if (figures->error != 0) {
        strlcpy(figures->sql_state, data->error_info->sqlstate, sizeof(figures->sql_state));
        strlcpy(figures->message, data->error_info->error, sizeof(figures->message));
    }
}

void shim_mysqlnd_write_figures(void *connection, const shim_mysqlnd_figures *figures)
{
    MYSQLND *mysql = connection;
    MYSQLND_CONN_DATA *data = mysql != NULL ? mysql->data : NULL;
    if (data == NULL) {
        return;
    }
    data->upsert_status->affected_rows = figures->affected_rows;
    data->upsert_status->last_insert_id = figures->last_insert_id;
    data->upsert_status->warning_count = figures->warning_count;
    data->field_count = figures->field_count;
    data->error_info->m->reset(data->error_info);
    if (figures->error != 0) {
        data->error_info->m->set_client_error(data->error_info, figures->error, figures->sql_state, figures->message);
    }
}

bool shim_mysqlnd_is_idle(const void *connection)
{
    const MYSQLND *mysql = connection;
    const enum mysqlnd_connection_state state =
        mysql != NULL && mysql->data != NULL ? GET_CONNECTION_STATE(&mysql->data->state) : CONN_ALLOCED;
    return state == CONN_READY || state == CONN_ALLOCED || state == CONN_QUIT_SENT;
}

#else

#define ABSENT(type, name, result, ...) type name(__VA_ARGS__) { return result; }
#pragma GCC diagnostic ignored "-Wunused-parameter"
ABSENT(bool, shim_mysqli_is_open, true, zend_object *object)
ABSENT(bool, shim_mysqli_in_transaction, true, zend_object *object)
ABSENT(bool, shim_mysqli_is_idle, true, zend_object *object)
ABSENT(bool, shim_mysqli_awaits_answer, false, zend_object *object)
ABSENT(void, shim_mysqli_lose, , zend_object *object)
ABSENT(void, shim_mysqlnd_lose, , void *connection)
ABSENT(bool, shim_mysqli_is_unread, false, zend_object *result)
ABSENT(void *, shim_mysqli_library_connection, NULL, zend_object *object)
ABSENT(void, shim_mysqlnd_read_figures, , const void *connection, shim_mysqlnd_figures *figures)
ABSENT(void, shim_mysqlnd_write_figures, , void *connection, const shim_mysqlnd_figures *figures)
ABSENT(bool, shim_mysqlnd_is_idle, false, const void *connection)

#endif
