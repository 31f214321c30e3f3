/* The session of a request that a bailout has interrupted. */
#ifndef SVC_SHIM_SESSION_H
#define SVC_SHIM_SESSION_H

#include <stdbool.h>

/* Resets the flags that a bailout has left set, and closes a half-open session without writing it. */
void shim_session_after_jump(void);
/* Call after the session has ended: closes the handler that a user's session handler has left open. NULL stands for the
 * globals of the calling thread. */
void shim_session_close(void *globals);
bool shim_session_is_active(void);

#endif
