/* Calls on connections: PHP's functions and methods, iterators, and streams of large objects. */
#ifndef SVC_SHIM_CALLS_H
#define SVC_SHIM_CALLS_H

#include "compat.h"
#include "worker/connections/connection.h"
#include "worker/connections/owners/uses.h"

#include <stdbool.h>

/* A call in progress on a connection; on the caller's stack. */
typedef struct shim_call {
    /* NULL if the object has no record, or if the running code takes no turns. */
    shim_connection *connection;
    shim_use *use;
    /* The serial number of the calling request, and its count of refused waits at that time. */
    uint64_t request;
    unsigned refusals;
} shim_call;

/* Begins a call on the connection that the object belongs to: waits until the running request has the connection. Returns
 * false, with an exception thrown, if the call must not be made. */
bool shim_call_begin(shim_call *call, zend_object *object);
/* Ends the call, even if another request runs by then. */
void shim_call_end(const shim_call *call);
/* Returns PHP's handler of a wrapped function. */
zif_handler shim_call_handler(const zend_function *function);
/* Makes the function take its connection first, unless it does already. `wrapper` finally calls shim_call_handler(). */
void shim_call_wrap(zend_function *function, zif_handler wrapper);
/* Returns false if PHP has no reserved slot left for functions. */
bool shim_calls_install(void);
/* The wrappers of ordinary functions, and of those whose first argument is a second connection. */
ZEND_NAMED_FUNCTION(shim_call_on_connection);
ZEND_NAMED_FUNCTION(shim_call_on_two_connections);

#endif
