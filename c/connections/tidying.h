/* How a connection is left for the next one: kind by kind. */
#ifndef SVC_SHIM_TIDYING_H
#define SVC_SHIM_TIDYING_H

#include "compat.h"
#include "connections/connection.h"

#include <stdbool.h>

/* Rolls back an open transaction, drains or closes unread results. Returns whether the next one can use the connection.
 * Runs no code of scripts; may throw, raise errors and bail out. */
bool shim_connection_tidy(shim_connection *connection);
/* Has the connection execute a statement without rows. Returns whether it has; the same holds. */
bool shim_connection_execute(shim_connection *connection, const char *statement);
/* Releases what a request has locked until the end of the session (statements.h). The same holds. */
bool shim_connection_unlock(shim_connection *connection);
/* Whether a transaction is open, or a block of commands of Redis. */
bool shim_connection_in_transaction(shim_connection *connection);
/* Whether its server has closed the connection, as far as the library knows. Runs no code of scripts. */
bool shim_connection_is_lost(const shim_connection *connection);
/* Whether the extension opens such a connection again by itself once it is closed. */
bool shim_connection_reconnects(const shim_connection *connection);
/* Closes the connection: a call on it was interrupted, or it could not be tidied. */
void shim_connection_close(shim_connection *connection);

#endif
