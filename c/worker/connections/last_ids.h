/* The last generated ID that the server keeps for a session: LAST_INSERT_ID(), lastval().
 *
 * MySQL and MariaDB can restore an earlier ID: before a request generates one, the ID of the request that has lent the
 * connection is saved in a session variable; before the lender's next statement, it is restored. PostgreSQL cannot restore
 * lastval() and currval(): a request whose ID is lost gets an error instead of another request's ID.
 *
 * FOUND_ROWS(), ROW_COUNT(), SHOW WARNINGS and changes() of SQLite are not restored: they describe the last statement of
 * any request. */
#ifndef SVC_SHIM_LAST_IDS_H
#define SVC_SHIM_LAST_IDS_H

#include "compat.h"
#include "worker/connections/connection.h"

#include <stdbool.h>

/* Saves and restores IDs before a call of the running request with these effects (statements.h). Returns false if the call
 * reads an ID that is lost. */
bool shim_last_id_is_there(shim_connection *connection, unsigned effects);

#endif
