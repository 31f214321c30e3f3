/* What stands between a script and the worker: steps that may run a script's code, and engine code in mid-switch.
 *
 * PHP leaves frames by jumps (fatal errors, memory and time limits), and some of its extensions catch a jump, tidy up
 * and go on as if nothing had been. Promises: a jump ends in here; one that somebody below has swallowed is noticed;
 * after either the engine is where it was when the place was taken, and the worker is tainted. */
#ifndef SVC_SHIM_GUARD_H
#define SVC_SHIM_GUARD_H

#include "compat.h"

/* Where the engine was before it called a request's code. */
typedef struct shim_place {
    const void *descent;
    unsigned mutexes;
    zend_execute_data *frame;
    zend_vm_stack stack;
    zval *top;
    zval *end;
    size_t page_size;
    shim_scope *scope;
    zend_fiber *fiber;
    bool is_blocked;
} shim_place;

shim_place shim_place_here(void);

/* Runs a step that may call a script's code. False: it ended by a jump, or somebody below it caught one; then the engine
 * is at `here` again, and what exception there was is gone without a destructor. The step's own variables are its own:
 * nothing of the caller's frame is behind the setjmp. */
bool shim_guard(const shim_place *here, void (*step)(void *), void *argument);

/* Runs engine code that has to be called while two requests change places (a directive's handler, chdir). It may allocate,
 * raise errors, throw, even jump: no handler of a script hears of it, errors go nowhere, exceptions are dropped, the memory
 * limit does not hold. False: it jumped; the worker is tainted. */
bool shim_quietly(void (*step)(void *), void *argument);

/* Inside of shim_quietly(): nothing is to be reported. */
bool shim_is_quiet(void);

#endif
