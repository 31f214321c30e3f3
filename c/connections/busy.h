/* How a script waits for its turn, and Svc\ConnectionBusyError. */
#ifndef SVC_SHIM_BUSY_H
#define SVC_SHIM_BUSY_H

#include "compat.h"
#include "connections/connection.h"

#include <stdbool.h>

/* Whether connections are taken before they are used: a request that can wait runs, or, between requests, what no request
 * waits for. */
bool shim_connections_take_turns(void);
/* How a wait for a connection has ended. */
typedef struct shim_taken {
    shim_turn turn;
    /* The connection is a curl handle. */
    bool is_handle;
} shim_taken;

/* The same as shim_connection_take in two steps: what the caller holds is let go before the second, which may not return. */
shim_taken shim_connection_wait(shim_connection *connection);
bool shim_connection_is_taken(shim_taken taken);
/* Waits until the running request has the connection that the object belongs to; NULL is one without a record. Returns
 * false if it is not to be used: an exception has been thrown. Does not return at the time limit of the request. */
bool shim_connection_take(shim_connection *connection);
/* Waits until it has everything that nobody has opened, for what will turn out to be one of those. */
bool shim_connection_take_joint(void);
/* Waits until it has all persistent stores of the thread, of which this will be one. */
bool shim_connection_take_stores(shim_connection *store);
/* Whether the object may be touched without waiting. */
bool shim_connection_is_free(shim_connection *connection);
/* Takes it if that needs no waiting; never throws. A lease is only looked at, and so is everything between requests. */
bool shim_connection_grab(shim_connection *connection);
/* Throws a Svc\ConnectionBusyError. */
void shim_busy_error_throw(const char *message);
void shim_busy_error_register(void);

#endif
