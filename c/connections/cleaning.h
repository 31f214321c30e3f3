/* The end of a request's connections. */
#ifndef SVC_SHIM_CLEANING_H
#define SVC_SHIM_CLEANING_H

#include "compat.h"
#include "fiber/fiber.h"
#include "jump/guard.h"

/* The request has run its last line, for now: leaves its connections clean, closes those that cannot be, and gives them
 * all back. May wait; runs no code of scripts. Its time limit is changed. Does nothing if it has none. */
void shim_connections_end(shim_fiber *fiber, const shim_place *here);
/* The same for what the thread's own stack has used since it last waited for a request (users.h). */
void shim_connections_end_own_stack(void);
/* Nothing of the request is left. */
void shim_connections_leave(const shim_fiber *fiber);
/* Svc\release_connections(): void */
ZEND_NAMED_FUNCTION(shim_release_connections);

#endif
