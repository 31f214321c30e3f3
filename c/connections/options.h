/* Options of stores (setOption() of Redis and Memcached) that a request changes: the change is its own until it ends. Then
 * it is everybody's, as it is where requests follow each other. */
#ifndef SVC_SHIM_OPTIONS_H
#define SVC_SHIM_OPTIONS_H

#include "compat.h"
#include "connections/connection.h"

/* The running request has the store, and is about to make a call: the options are those that it has set. */
void shim_options_enter(shim_connection *store, zend_execute_data *execute_data);
/* The call has returned. `is_for_all`: what it has set is everybody's at once. */
void shim_options_leave(shim_connection *store, zend_execute_data *execute_data, const zval *result, bool is_for_all);
/* The request ends. */
void shim_options_end(const shim_fiber *fiber);
/* The store's object is freed. */
void shim_options_forget(shim_connection *store);

#endif
