/* The ID that a request has made last on a connection, as its server knows it: LAST_INSERT_ID(), lastval().
 *
 * MySQL and MariaDB can return to an earlier one: before a request makes an ID, a variable of the session takes over that
 * of another request, and before that one asks again, it is put back. PostgreSQL cannot return to an earlier value of
 * lastval() and currval(), so who asks is told that it is lost, and not another one's.
 *
 * FOUND_ROWS(), ROW_COUNT(), SHOW WARNINGS and changes() of SQLite are those of the last statement of all. */
#ifndef SVC_SHIM_LAST_IDS_H
#define SVC_SHIM_LAST_IDS_H

#include "compat.h"
#include "connections/connection.h"

#include <stdbool.h>

/* The running request is about to make a call with these effects (statements.h). Returns false if it asks for an ID that is
 * lost. */
bool shim_last_id_is_there(shim_connection *connection, unsigned effects);

#endif
