/* The session of a request that a jump has left in the middle. */
#ifndef SVC_SHIM_SESSION_H
#define SVC_SHIM_SESSION_H

#include <stdbool.h>

/* Puts right what a jump has left set, and lets go of a session that was left half open: it is closed, and not written. */
void shim_session_after_jump(void);
/* Closes what a user's session handler has left open; after the session has ended. NULL: the thread's. */
void shim_session_close(void *globals);
bool shim_session_is_active(void);

#endif
