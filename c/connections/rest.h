/* Whether a connection is at rest: another request may use it, and its owner goes on afterwards as if nothing had been. */
#ifndef SVC_SHIM_REST_H
#define SVC_SHIM_REST_H

#include "compat.h"
#include "connections/connection.h"

#include <stdbool.h>

/* No call, result that has to be read, copy, transaction or block of commands is under way on it. Asks nobody: can be called
 * whatever runs. */
bool shim_connection_is_at_rest(shim_connection *connection);
/* A call begins: records its effects on the session, or that the request uses a store. `subject` is the connection itself or
 * the statement that the call is made on. Returns false if it has thrown, and the call must not be made. */
bool shim_rest_note(shim_connection *root, shim_connection *subject, zend_execute_data *execute_data);
/* The same where connections have no owners: records locks only. */
void shim_rest_note_locks(shim_connection *root, shim_connection *subject, zend_execute_data *execute_data);
/* A call on a statement has returned: notes how many of its rows have been fetched. */
void shim_rest_note_rows(const zend_execute_data *execute_data, const zval *result);
/* Whether the request is in the middle of a result, or of a call, on a connection that it does not lease. */
bool shim_rest_is_broken(const shim_fiber *fiber);
void shim_rest_install(void);

#endif
