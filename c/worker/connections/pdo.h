/* The state of PDO's objects. */
#ifndef SVC_SHIM_PDO_H
#define SVC_SHIM_PDO_H

#include "compat.h"

#include <stdbool.h>

/* Return the connection of a statement, and the statement of a row; NULL if there is none. */
const zend_object *shim_pdo_of_statement(zend_object *statement);
const zend_object *shim_pdo_of_row(zend_object *row);
/* Whether the connection is persistent, or has become so. */
bool shim_pdo_is_persistent(zend_object *object);
/* Whether the driver is that of MySQL and MariaDB. */
bool shim_pdo_is_mysql(zend_object *object);
/* Whether a transaction is open. */
bool shim_pdo_in_transaction(zend_object *object);
/* Rolls an open transaction back. Returns false if that failed. */
bool shim_pdo_roll_back(zend_object *object);
/* Called when the socket has been shut down: the next use reports a lost connection, and no transaction. */
void shim_pdo_lose(zend_object *object);
/* The SQLSTATE of the last call on the connection, as PDO keeps it. */
typedef struct shim_pdo_state {
    char code[6];
} shim_pdo_state;
shim_pdo_state shim_pdo_state_of(zend_object *object);
void shim_pdo_set_state(zend_object *object, shim_pdo_state state);
/* Whether the statement has a result that may be unread. */
bool shim_pdo_has_result(zend_object *object);

/* Returns the name of the driver; NULL if there is none. */
const char *shim_pdo_driver(zend_object *object);
/* Returns the client library's connection, which drivers keep as the first member of their data. NULL if it is not open. */
void *shim_pdo_library_connection(zend_object *object);
/* Returns the number of rows in the statement's result, as far as the driver knows it. */
zend_long shim_pdo_row_count(zend_object *object);
/* Returns the sqlite3 object, if that is the driver; NULL otherwise. */
void *shim_pdo_sqlite(zend_object *object);

#endif
