/* What PDO's objects say of themselves. */
#ifndef SVC_SHIM_PDO_H
#define SVC_SHIM_PDO_H

#include "compat.h"

#include <stdbool.h>

/* The connection of a statement, and the statement of a row; NULL if there is none. */
const zend_object *shim_pdo_of_statement(zend_object *statement);
const zend_object *shim_pdo_of_row(zend_object *row);
/* Whether the connection is persistent, or has become so. */
bool shim_pdo_is_persistent(zend_object *object);
/* Whether it is one to MySQL or MariaDB. */
bool shim_pdo_is_mysql(zend_object *object);
/* Whether a transaction is open. */
bool shim_pdo_in_transaction(zend_object *object);
/* Ends an open transaction. Returns false if it failed. */
bool shim_pdo_roll_back(zend_object *object);
/* The socket has been shut down: the next use reports a lost connection, and no transaction. */
void shim_pdo_lose(zend_object *object);
/* The SQLSTATE of the last call on the connection, as PDO keeps it. */
typedef struct shim_pdo_state {
    char code[6];
} shim_pdo_state;
shim_pdo_state shim_pdo_state_of(zend_object *object);
void shim_pdo_set_state(zend_object *object, shim_pdo_state state);
/* Whether the statement has a result that may not have been read. */
bool shim_pdo_has_result(zend_object *object);

/* Its driver; NULL if it has none. */
const char *shim_pdo_driver(zend_object *object);
/* What drivers keep first about a connection: the library's own. NULL if it is not open. */
void *shim_pdo_library_connection(zend_object *object);
/* How many rows the statement's result has, as far as the driver says. */
zend_long shim_pdo_row_count(zend_object *object);
/* SQLite's own object, if that is the driver; NULL otherwise. */
void *shim_pdo_sqlite(zend_object *object);

#endif
