/* The end of a request's use of connections. */
#ifndef SVC_SHIM_CLEANING_H
#define SVC_SHIM_CLEANING_H

#include "compat.h"
#include "worker/bailout/guard.h"
#include "worker/stack/fiber.h"

/* Called when no script code of the request is left to run; again if later destructors have used connections. Cleans its
 * connections, closes those that cannot be cleaned, and releases all of them. May wait; runs no script code; changes the
 * request's time limit. Does nothing if the request has used none. */
void shim_connections_end(shim_fiber *fiber, const shim_place *here);
/* The same for the connections that the thread's own stack has used since it last waited for a request (users.h). */
void shim_connections_end_own_stack(void);
/* Releases what the request still owns, without cleaning: it will not run again. */
void shim_connections_leave(const shim_fiber *fiber);
/* Svc\release_connections(): void */
ZEND_NAMED_FUNCTION(shim_release_connections);

#endif
