/* What SQLite says of a connection, and how it ends what is open. `database` is SQLite's own object; NULL is one that is not
 * open. None of these call an extension; SQLite may call an authorizer of the script. */
#ifndef SVC_SHIM_SQLITE_H
#define SVC_SHIM_SQLITE_H

#include "compat.h"
#include "connections/connection.h"

#include <stdbool.h>
#include <stdint.h>

/* The handle of an object of the class SQLite3, and of a connection of SQLite3 or PDO; NULL for other databases. */
void *shim_sqlite_of(zend_object *object);
void *shim_sqlite_database(const shim_connection *connection);
/* The row that was inserted last. */
int64_t shim_sqlite_row_id(void *database);
void shim_sqlite_set_row_id(void *database, int64_t row_id);
bool shim_sqlite_in_transaction(void *database);
/* Whether a statement has begun and not ended. */
bool shim_sqlite_is_busy(void *database);
/* Ends an open transaction. Returns false if it is still open. */
bool shim_sqlite_roll_back(void *database);
/* Ends statements whose rows were not read; not blobs. */
void shim_sqlite_end_statements(void *database);
/* Undoes everything that is open. A statement in the middle of which a bailout has occurred must not go on. */
void shim_sqlite_end_all(void *database);

#endif
