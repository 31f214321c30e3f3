/* Stores: the state that a call leaves for later calls of any request. */
#ifndef SVC_SHIM_STORES_H
#define SVC_SHIM_STORES_H

#include "compat.h"
#include "worker/connections/connection.h"
#include "worker/stack/fiber.h"

/* Called before the running request's call on a store that it has: selects the request's database, or the one from before
 * any request selected another. Waits. */
void shim_store_enter(shim_connection *store, zend_execute_data *execute_data);
/* Called when the call has returned. */
void shim_store_leave(shim_connection *store, zend_execute_data *execute_data, const zval *result);
/* Forgets the selections of a request that has ended. */
void shim_stores_end(const shim_fiber *fiber);

#endif
