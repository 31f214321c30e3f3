/* Waits of scripts for connections, and Svc\ConnectionBusyError. */
#ifndef SVC_SHIM_BUSY_H
#define SVC_SHIM_BUSY_H

#include "compat.h"
#include "worker/connections/connection.h"

#include <stdbool.h>

/* Whether connections are taken before they are used: in a request that can wait, and in code that runs between requests. */
bool shim_connections_take_turns(void);
/* The result of a wait for a connection. */
typedef struct shim_taken {
    shim_turn turn;
    /* The connection is a curl handle. */
    bool is_handle;
} shim_taken;

/* shim_connection_take in two steps: between them, the caller releases what it holds, since the second may not return. */
shim_taken shim_connection_wait(shim_connection *connection);
bool shim_connection_is_taken(shim_taken taken);
/* Waits until the running request has the connection that the object belongs to; NULL stands for one without a record.
 * Returns false, with an exception thrown, if it must not be used. Does not return at the time limit of the request. */
bool shim_connection_take(shim_connection *connection);
/* Acquires the joint ownership before the caller opens a connection that falls under it. */
bool shim_connection_take_joint(void);
/* Acquires all persistent stores of the thread, which `store` is about to join. */
bool shim_connection_take_stores(shim_connection *store);
/* Whether the object may be used without waiting. */
bool shim_connection_is_free(shim_connection *connection);
/* Takes it if no wait is needed; never throws. Leases, and anything between requests, are only checked. */
bool shim_connection_grab(shim_connection *connection);
/* Throws a Svc\ConnectionBusyError. */
void shim_busy_error_throw(const char *message);
void shim_busy_error_register(void);

#endif
