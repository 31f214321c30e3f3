/* Uses: calls in progress, on the stacks that make them.
 *
 * A library in the middle of a call may call a script: PDO::FETCH_FUNC, a function of SQLite, a callback of curl, a filter
 * of a stream. If that runs in a fiber of the script, it may suspend itself there, and the call stays where it is, on the
 * stack of the fiber. It may be resumed, dropped or destroyed at any later time: by its request, at the end of that request
 * (fiber/left_fibers.h), or by any request if the boot script has begun it. Fibers may end in another order than they have
 * begun. So the call in progress is not a property of the request: it is found by the stack that runs.
 *
 * Invariants.
 *  1. A use is on the list of one stack, which is found by the stack's context: that on which it has begun.
 *  2. It is over when its end is called, on the same stack; when an outer one of the same stack ends, or a bailout has
 *     returned to above its position, for its end was skipped; or when its stack is freed. The first that happens.
 *  3. Its memory is not on the stack, so that what a bailout has skipped can still be read.
 *  4. Nothing here asks which request runs when a use ends. */
#ifndef SVC_SHIM_USES_H
#define SVC_SHIM_USES_H

#include "owners/turns.h"

#include <stdbool.h>

typedef struct shim_use shim_use;

/* A call on the thing begins on the running stack; NULL is a call that is about no such thing, made by one that is. Returns
 * NULL if there is no memory. */
shim_use *shim_use_begin(shim_owned *thing);
/* It ends, on the same stack. */
void shim_use_end(shim_use *use);
/* Called when a use of a thing is over, however it has ended: may free the thing. Set by connections/calls.c. */
extern void (*shim_use_is_over)(shim_owned *thing);
/* What the innermost call on the running stack is about; NULL if there is none. */
shim_owned *shim_use_here(void);
/* Ends those on the running stack that bailouts have skipped. */
void shim_uses_mend(void);
/* No stack of the thread runs any more. */
void shim_uses_forget(void);
/* Returns false if PHP has no room in the contexts of stacks. Before any thread runs PHP. */
bool shim_uses_install(void);
/* The number of that room; functions have the same. */
int shim_uses_place(void);

#endif
