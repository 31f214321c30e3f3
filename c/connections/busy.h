/* How a script waits for its turn, and Svc\ConnectionBusyError. */
#ifndef SVC_SHIM_BUSY_H
#define SVC_SHIM_BUSY_H

#include "compat.h"
#include "connections/connection.h"

#include <stdbool.h>

/* Waits until the running request has the connection that the object belongs to; NULL is one without a record. Returns
 * false if it is not to be used: an exception has been thrown. Does not return at the time limit of the request. */
bool shim_connection_take(shim_connection *connection);
/* Waits until it has everything that nobody has opened, for what will turn out to be one of those. */
bool shim_connection_take_joint(void);
/* Waits until it has all persistent stores of the thread, of which this will be one. */
bool shim_connection_take_stores(shim_connection *store);
/* Whether the object may be touched without waiting. */
bool shim_connection_is_free(shim_connection *connection);
/* Takes it if that needs no waiting; never throws. A lease is only looked at. */
bool shim_connection_grab(shim_connection *connection);
/* Throws a Svc\ConnectionBusyError. */
void shim_busy_error_throw(const char *message);
void shim_busy_error_register(void);

#endif
