/* Whether a connection is at rest: another request may use it without any effect on what its owner does next. */
#ifndef SVC_SHIM_REST_H
#define SVC_SHIM_REST_H

#include "compat.h"
#include "worker/connections/connection.h"

#include <stdbool.h>

/* Whether no call, unread result, copy, transaction or block of commands is under way on it. Sends nothing and runs no
 * script code: may be called at any time. */
bool shim_connection_is_at_rest(shim_connection *connection);
/* Called when a call begins: records its effects on the session, or that the request uses a store. `subject` is the
 * connection itself, or the statement on which the call is made. Returns false, with an exception thrown, if the call must
 * not be made. */
bool shim_rest_note(shim_connection *root, shim_connection *subject, zend_execute_data *execute_data);
/* The same where connections have no owners: records locks only. */
void shim_rest_note_locks(shim_connection *root, shim_connection *subject, zend_execute_data *execute_data);
/* Called when a call on a statement has returned: notes the number of fetched rows. */
void shim_rest_note_rows(const zend_execute_data *execute_data, const zval *result);
/* Whether the request is in the middle of a result, or of a call, on a connection that it does not lease. */
bool shim_rest_is_broken(const shim_fiber *fiber);
void shim_rest_install(void);

#endif
