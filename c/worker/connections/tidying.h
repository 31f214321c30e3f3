/* Resets a connection for the next request, by kind. */
#ifndef SVC_SHIM_TIDYING_H
#define SVC_SHIM_TIDYING_H

#include "compat.h"
#include "worker/connections/connection.h"

#include <stdbool.h>

/* Rolls back an open transaction, drains or closes unread results. Returns whether the next request can use the connection.
 * Runs no script code; may throw, raise errors and bail out. */
bool shim_connection_tidy(shim_connection *connection);
/* Executes a statement without rows. Returns whether it succeeded. May throw, raise errors and bail out, too. */
bool shim_connection_execute(shim_connection *connection, const char *statement);
/* Releases session locks that a request has left (statements.h). May throw, raise errors and bail out, too. */
bool shim_connection_unlock(shim_connection *connection);
/* Whether a transaction is open, or a state of a store that only particular commands end. */
bool shim_connection_in_transaction(shim_connection *connection);
/* Whether the server has closed the connection, as far as the library knows. Runs no script code. */
bool shim_connection_is_lost(const shim_connection *connection);
/* Whether the extension reconnects such a connection once it is closed. */
bool shim_connection_reconnects(const shim_connection *connection);
/* Closes the connection: a call on it was interrupted, or it could not be reset. */
void shim_connection_close(shim_connection *connection);

#endif
