/* Who has used a connection, and leaves it clean.
 *
 * With owners (turns.h), that is one request at a time. Without them, in worker mode and in tasks, requests that wait
 * (Svc\sleep(), a lock) may use one connection at the same time, and the last of them cleans up: what an earlier one left
 * may be in the middle of what the others do.
 *
 * The thread's own stack counts as one user, from one wait for a request to the next: the boot script, and what runs between
 * and in requests of frankenphp_handle_request(), which may begin in a request what they end after it. So do destructors that
 * the collector runs between requests. */
#ifndef SVC_SHIM_USERS_H
#define SVC_SHIM_USERS_H

#include "compat.h"
#include "connections/connection.h"

#include <stdbool.h>

/* Who uses a connection now; NULL if that is left to PHP: in a request of classic mode, and in a forked child, which
 * shares its connections with the server. */
const shim_fiber *shim_user_now(void);
/* The user for the thread's own stack. */
const shim_fiber *shim_user_of_own_stack(void);
/* Notes that the connection is used now, where it has no owner. */
void shim_user_note(shim_connection *connection);
/* Notes that the connections are used that pg_pconnect() keeps, whose objects may end before the request. */
void shim_user_note_persistent(void);
bool shim_user_is_noted(const shim_connection *connection, const shim_fiber *user);
/* Forgets one user of the connection. Returns whether there is no other one. */
bool shim_user_leave(shim_connection *connection, const shim_fiber *user);
/* The same for persistent ones; false if it has used none. */
bool shim_user_leave_persistent(const shim_fiber *user);
/* Whether the thread's own stack has used any since this was last asked. */
bool shim_user_take_own_stack(void);

#endif
