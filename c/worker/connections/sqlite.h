/* The state of SQLite connections, and how to end what is open on them. `database` is the sqlite3 object; NULL for one that
 * is not open. These functions call no extension; SQLite may call an authorizer of the script. */
#ifndef SVC_SHIM_SQLITE_H
#define SVC_SHIM_SQLITE_H

#include "compat.h"
#include "worker/connections/connection.h"

#include <stdbool.h>
#include <stdint.h>

/* Return the sqlite3 object of an SQLite3 object, and of a connection of SQLite3 or PDO; NULL for other databases. */
void *shim_sqlite_of(zend_object *object);
void *shim_sqlite_database(const shim_connection *connection);
/* Returns the row ID of the last insert. */
int64_t shim_sqlite_row_id(void *database);
void shim_sqlite_set_row_id(void *database, int64_t row_id);
bool shim_sqlite_in_transaction(void *database);
/* Whether a statement has begun and not ended. */
bool shim_sqlite_is_busy(void *database);
/* Rolls an open transaction back. Returns false if it is still open. */
bool shim_sqlite_roll_back(void *database);
/* Resets statements with unread rows; not blobs. */
void shim_sqlite_end_statements(void *database);
/* Rolls back everything that is open: a statement that a bailout has interrupted must not continue. */
void shim_sqlite_end_all(void *database);

#endif
