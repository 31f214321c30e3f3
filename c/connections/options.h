/* Options of stores (setOption() of Redis and Memcached). A change applies to the request that has made it until that request
 * ends, and to all later calls afterwards, as it would if the requests of the thread ran one after the other. */
#ifndef SVC_SHIM_OPTIONS_H
#define SVC_SHIM_OPTIONS_H

#include "compat.h"
#include "connections/connection.h"

/* The running request owns the store and begins a call: applies the options that it has set. */
void shim_options_enter(shim_connection *store, zend_execute_data *execute_data);
/* The call has returned. `is_for_all`: an option that it has set applies to all requests at once. */
void shim_options_leave(shim_connection *store, zend_execute_data *execute_data, const zval *result, bool is_for_all);
/* The request ends: its changes apply to all requests. */
void shim_options_end(const shim_fiber *fiber);
/* The store's object is freed. */
void shim_options_forget(shim_connection *store);

#endif
