/* Uses: calls in progress, on the stacks that make them.
 *
 * A library may call a script in the middle of a call: PDO::FETCH_FUNC, a function of SQLite, a callback of curl, a filter
 * of a stream. If that runs in one of the script's fibers, it may suspend itself there, and the call stays on the stack of
 * the fiber. The fiber may be resumed, dropped or destroyed at any later time: by its request, at the end of that request
 * (worker/stack/left_fibers.h), or by any request if the boot script has begun it. Fibers may end in another order than they began
 * in. So a call in progress is not a property of the request: it is found by the running stack.
 *
 * Invariants.
 *  1. A use is on the list of the stack on which it began, which is found by the stack's context.
 *  2. It ends by the first of these: its end is called, on the same stack; an outer use of that stack ends, or a bailout
 *     has returned to above its position, which skipped its end; its stack is freed.
 *  3. Its memory is not on the stack, so that it can be read after a bailout has skipped its end.
 *  4. The end of a use does not depend on the running request. */
#ifndef SVC_SHIM_USES_H
#define SVC_SHIM_USES_H

#include "worker/connections/owners/turns.h"

#include <stdbool.h>

typedef struct shim_use shim_use;

/* Begins a call on the thing on the running stack; NULL stands for a call that concerns no such thing, made inside one that
 * does. Returns NULL if out of memory. */
shim_use *shim_use_begin(shim_owned *thing);
/* Ends the use, on the same stack. */
void shim_use_end(shim_use *use);
/* Called when a use of a thing has ended in any way: may free the thing. Set by worker/connections/calls.c. */
extern void (*shim_use_is_over)(shim_owned *thing);
/* Returns the thing of the innermost call on the running stack; NULL if there is none. */
shim_owned *shim_use_here(void);
/* Ends the uses on the running stack whose ends bailouts have skipped. */
void shim_uses_mend(void);
/* Ends all uses of the thread, none of whose stacks will run again. */
void shim_uses_forget(void);
/* Reserves a slot in the contexts of stacks. Returns false if PHP has none left. Called before any thread runs PHP. */
bool shim_uses_install(void);
/* Returns the number of that slot; functions have a slot of the same number. */
int shim_uses_place(void);

#endif
