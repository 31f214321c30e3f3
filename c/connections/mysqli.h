/* What mysqli's objects say of themselves. */
#ifndef SVC_SHIM_MYSQLI_H
#define SVC_SHIM_MYSQLI_H

#include "compat.h"

#include <stdbool.h>

/* Whether the connection is open. */
bool shim_mysqli_is_open(zend_object *object);
bool shim_mysqli_in_transaction(zend_object *object);
/* Whether it waits for no reply, and has no more to read. */
bool shim_mysqli_is_idle(zend_object *object);
/* Whether a query was sent whose answer nobody has begun to read. */
bool shim_mysqli_awaits_answer(zend_object *object);
/* Whoever uses the connection next is told that the server has gone. */
void shim_mysqli_lose(zend_object *object);
/* Whether a result has not been read to its end from the connection. */
bool shim_mysqli_is_unread(zend_object *result);

/* Whether mysqlnd's connection, which PDO has, waits for no reply, and has no more to read. */
bool shim_mysqlnd_is_idle(const void *connection);

#endif
