/* Stores: what a call on one leaves for the next call, by whomever. */
#ifndef SVC_SHIM_STORES_H
#define SVC_SHIM_STORES_H

#include "compat.h"
#include "connections/connection.h"
#include "fiber/fiber.h"

/* The running request makes a call on the store, which it has: it finds the database that it has selected, or the one that
 * was there before any request selected another. Waits. */
void shim_store_enter(shim_connection *store, zend_execute_data *execute_data);
/* The call has returned. */
void shim_store_leave(shim_connection *store, zend_execute_data *execute_data, const zval *result);
/* The request has ended: what it has selected is forgotten. */
void shim_stores_end(const shim_fiber *fiber);

#endif
