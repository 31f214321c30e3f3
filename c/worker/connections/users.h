/* Users of a connection, which have to leave it clean.
 *
 * With owners (turns.h), a connection has one user at a time. Without them, in worker mode and in tasks, requests that wait
 * (Svc\sleep(), a lock) may use one connection at the same time, and the last of them cleans up: what an earlier one has
 * left open may be part of the work of the others.
 *
 * The thread's own stack counts as one user, from one wait for a request to the next: the boot script and the code between
 * and in the requests of frankenphp_handle_request(), which may begin something in a request and end it afterwards. So do
 * destructors that the collector runs between requests. */
#ifndef SVC_SHIM_USERS_H
#define SVC_SHIM_USERS_H

#include "compat.h"
#include "worker/connections/connection.h"

#include <stdbool.h>

/* Returns the current user; NULL if PHP cleans up: in a request of classic mode, and in a forked child, which shares its
 * connections with the server. */
const shim_fiber *shim_user_now(void);
/* Returns the user that stands for the thread's own stack. */
const shim_fiber *shim_user_of_own_stack(void);
/* Notes the current user of a connection without an owner. */
void shim_user_note(shim_connection *connection);
/* Notes the current user of the connections that pg_pconnect() keeps, whose objects may be freed before the request ends. */
void shim_user_note_persistent(void);
bool shim_user_is_noted(const shim_connection *connection, const shim_fiber *user);
/* Forgets one user of the connection. Returns whether no other one is left. */
bool shim_user_leave(shim_connection *connection, const shim_fiber *user);
/* The same for the persistent connections; false if it has used none. */
bool shim_user_leave_persistent(const shim_fiber *user);
/* Whether the thread's own stack has used any connection since the last call of this function. */
bool shim_user_take_own_stack(void);

#endif
