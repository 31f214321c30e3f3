/* Whether a connection is at rest: another request may use it, and its owner goes on afterwards as if nothing had been. */
#ifndef SVC_SHIM_REST_H
#define SVC_SHIM_REST_H

#include "compat.h"
#include "connections/connection.h"

#include <stdbool.h>

/* No call, result that has to be read, copy, transaction or block of commands is under way on it. Asks nobody: can be called
 * whatever runs. */
bool shim_connection_is_at_rest(shim_connection *connection);
/* A call is about to be made: notes what it leaves in the session, or that a store is used. `subject` is what it is made on,
 * the connection itself or what belongs to it. Returns false if it cannot be made: it has thrown. */
bool shim_rest_note(shim_connection *root, shim_connection *subject, zend_execute_data *execute_data);
/* The same where connections have no owners, of locks alone. */
void shim_rest_note_locks(shim_connection *root, shim_connection *subject, zend_execute_data *execute_data);
/* A call on a statement has returned: notes how many of its rows have been fetched. */
void shim_rest_note_rows(const zend_execute_data *execute_data, const zval *result);
/* Whether the request is in the middle of a result, or of a call, on a connection that it does not lease. */
bool shim_rest_is_broken(const shim_fiber *fiber);
void shim_rest_install(void);

#endif
