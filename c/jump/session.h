/* The session of a request that a bailout has interrupted. */
#ifndef SVC_SHIM_SESSION_H
#define SVC_SHIM_SESSION_H

#include <stdbool.h>

/* Resets the flags that a bailout has left set, and drops a session that is half open: it is closed without being
 * written. */
void shim_session_after_jump(void);
/* After the session has ended: closes what a user's session handler has left open. NULL stands for the thread's. */
void shim_session_close(void *globals);
bool shim_session_is_active(void);

#endif
