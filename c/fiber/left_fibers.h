/* Fibers of scripts that are suspended when their request ends.
 *
 * PHP destroys all fibers at the end of a request. In worker mode, one may be kept: it then goes on in a later request, as an
 * event loop of the script's own does. That is sound only while nothing but a script's code is on its stack. Where a function
 * of PHP, or the engine itself, has called the script (a callback of mb_ereg_replace_callback(), SessionHandler, __toString(),
 * an autoloader, an error handler), it goes on when the fiber does, and uses what it has found in its request: an expression,
 * a session, a parser, a connection. So such a fiber ends with the request that has left it.
 *
 * Which. Those of the request that ran when they were suspended, whoever has started them. Calls between functions of
 * scripts, generators and included files are a script's code; so are a few functions of PHP that do nothing but call, and
 * keep what they need in their own frame. */
#ifndef SVC_SHIM_LEFT_FIBERS_H
#define SVC_SHIM_LEFT_FIBERS_H

#include "compat.h"

/* One that the request with this serial number has left in the middle of a call of PHP's; NULL if there is none. */
zend_fiber *shim_left_fiber(uint64_t request);
size_t shim_left_fibers_count(uint64_t request);
/* Destroys it as PHP does at the end of a request: its calls return, `finally` blocks run. */
void shim_left_fiber_end(zend_fiber *fiber);
/* Frees the stacks of all of them, and nothing that is on these. */
void shim_left_fibers_drop(uint64_t request);
/* After PHP has started. */
void shim_left_fibers_install(void);

#endif
