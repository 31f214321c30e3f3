/* Options of stores (setOption() of Redis and Memcached). A change applies to the request that has made it until that
 * request ends, and to all later calls afterwards, as if the requests of the thread ran one after the other. */
#ifndef SVC_SHIM_OPTIONS_H
#define SVC_SHIM_OPTIONS_H

#include "compat.h"
#include "worker/connections/connection.h"

/* Applies the running request's options when it begins a call on a store that it owns. */
void shim_options_enter(shim_connection *store, zend_execute_data *execute_data);
/* Notes an option that the call has set. `is_for_all`: the option applies to all requests at once. */
void shim_options_leave(shim_connection *store, zend_execute_data *execute_data, const zval *result, bool is_for_all);
/* Makes the changes of a request that ends apply to all requests. */
void shim_options_end(const shim_fiber *fiber);
/* Frees the changes of a store whose object is freed. */
void shim_options_forget(shim_connection *store);

#endif
