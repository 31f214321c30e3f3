/* Calls on connections: PHP's functions and methods, iterators, and streams of large objects. */
#ifndef SVC_SHIM_CALLS_H
#define SVC_SHIM_CALLS_H

#include "compat.h"
#include "connections/connection.h"
#include "owners/uses.h"

#include <stdbool.h>

/* A call that is being made on a connection; on the caller's stack. */
typedef struct shim_call {
    /* NULL if the object has no record, or nothing runs here that has to take turns. */
    shim_connection *connection;
    shim_use *use;
    /* The request that makes it, by its serial number, and how often it had been told that it waits no more. */
    uint64_t request;
    unsigned refusals;
} shim_call;

/* A call is made on the connection that the object belongs to: waits until the running request has the connection. Returns
 * false if it must not be made: an exception has been thrown. */
bool shim_call_begin(shim_call *call, zend_object *object);
/* Ends what the beginning has noted, even if another request runs by then. */
void shim_call_end(const shim_call *call);
/* PHP's own handler of a function that has been wrapped. */
zif_handler shim_call_handler(const zend_function *function);
/* Has the function take its connection first, unless it does already. `wrapper` calls shim_call_handler() in the end. */
void shim_call_wrap(zend_function *function, zif_handler wrapper);
/* Returns false if PHP has no room for what is kept about each function. */
bool shim_calls_install(void);
/* The wrapper of functions that do nothing special, and of those whose first argument is another connection. */
ZEND_NAMED_FUNCTION(shim_call_on_connection);
ZEND_NAMED_FUNCTION(shim_call_on_two_connections);

#endif
