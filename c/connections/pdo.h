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
/* Whether a transaction is open. */
bool shim_pdo_in_transaction(zend_object *object);
/* Ends an open transaction. Returns false if it failed. */
bool shim_pdo_roll_back(zend_object *object);
/* Whether the statement has a result that may not have been read. */
bool shim_pdo_has_result(zend_object *object);

#endif
