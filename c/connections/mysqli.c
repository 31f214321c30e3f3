/* What mysqli's objects say of themselves: its headers, and those of mysqlnd, declare them. Without these, a connection
 * counts as one in a transaction, which is rolled back. */
#include "compat.h"
#include "connections/mysqli.h"

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

void shim_mysqli_lose(zend_object *object)
{
    MYSQLND_CONN_DATA *data = data_of(object);
    if (data != NULL) {
        SET_CONNECTION_STATE(&data->state, CONN_QUIT_SENT);
    }
}

bool shim_mysqli_is_unread(zend_object *result)
{
    const MYSQLI_RESOURCE *resource = php_mysqli_fetch_object(result)->ptr;
    const MYSQLND_RES *rows = resource != NULL ? resource->ptr : NULL;
    return rows != NULL && rows->unbuf != NULL && !rows->unbuf->eof_reached;
}

bool shim_mysqlnd_is_idle(const void *connection)
{
    const MYSQLND *mysql = connection;
    const enum mysqlnd_connection_state state =
        mysql != NULL && mysql->data != NULL ? GET_CONNECTION_STATE(&mysql->data->state) : CONN_ALLOCED;
    return state == CONN_READY || state == CONN_ALLOCED || state == CONN_QUIT_SENT;
}

#else

bool shim_mysqli_is_open(zend_object *object)
{
    (void)object;
    return true;
}

bool shim_mysqli_in_transaction(zend_object *object)
{
    (void)object;
    return true;
}

bool shim_mysqli_is_idle(zend_object *object)
{
    (void)object;
    return true;
}

bool shim_mysqli_awaits_answer(zend_object *object)
{
    (void)object;
    return false;
}

void shim_mysqli_lose(zend_object *object)
{
    (void)object;
}

bool shim_mysqli_is_unread(zend_object *result)
{
    (void)result;
    return false;
}

bool shim_mysqlnd_is_idle(const void *connection)
{
    (void)connection;
    return false;
}

#endif
