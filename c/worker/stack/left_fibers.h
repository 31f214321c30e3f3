/* Fibers of scripts that are suspended when their request ends.
 *
 * PHP destroys all fibers at the end of a request. In worker mode, a fiber may be kept and resumed in a later request,
 * as an event loop does. That is sound only if its stack holds nothing but script code. If a function of PHP or the
 * engine has called the script (a callback of mb_ereg_replace_callback(), SessionHandler, __toString(), an autoloader,
 * an error handler), it continues together with the fiber, and uses the state of its former request: an expression, a
 * session, a parser, a connection. Such a fiber is destroyed with the request that has left it.
 *
 * A fiber belongs to the request that was running when the fiber was suspended, even if another request has started it.
 * Calls between functions of scripts, generators and included files count as script code, and so do a few functions of
 * PHP that only make a call and keep their state in their own frame. */
#ifndef SVC_SHIM_LEFT_FIBERS_H
#define SVC_SHIM_LEFT_FIBERS_H

#include "compat.h"

/* Returns a fiber that the request with this serial number has left inside a call of PHP or the engine; NULL if there
 * is none. */
zend_fiber *shim_left_fiber(uint64_t request);
/* Destroys the fiber as PHP does at the end of a request: its calls return, `finally` blocks run. */
void shim_left_fiber_end(zend_fiber *fiber);
/* Frees the stacks of all such fibers without unwinding them. */
void shim_left_fibers_drop(uint64_t request);
/* Call after PHP has started. */
void shim_left_fibers_install(void);

#endif
