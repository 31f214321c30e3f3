/* Where the bailout of a step ends. */
#ifndef SVC_WORKER_BAILOUT_H
#define SVC_WORKER_BAILOUT_H

#include "compat.h"

/* ---- guard.c ---- */

/* Guards around all code that may run a script, and around engine code in the middle of a switch.
 *
 * PHP leaves frames by bailouts (fatal errors, memory and time limits), and some of its extensions catch a bailout,
 * clean up and continue as if nothing had happened. A bailout ends here; one that was caught further down is
 * detected. After either, the engine is back in the state in which the place was recorded, and the worker is tainted. */

/* The state of the engine before it called the code of a request. */
typedef struct shim_checkpoint {
    const void *free_depth;
    unsigned mutexes;
    zend_execute_data *frame;
    zend_vm_stack stack;
    zval *top;
    zval *end;
    size_t page_size;
    shim_scope *scope;
    zend_fiber *fiber;
    bool is_blocked;
    /* The request's current span. */
    uint64_t span;
} shim_checkpoint;

shim_checkpoint shim_checkpoint_here(void);

/* Runs a step that may run script code. Returns false if it ended by a bailout, or if a bailout was caught below it;
 * the engine is then back at `here`, and a pending exception has been dropped without running its destructor. The step
 * keeps its variables in its own frame: those of the caller are not protected by the setjmp. */
bool shim_guard(const shim_checkpoint *here, void (*step)(void *), void *argument);

/* Runs engine code that must be called while one request replaces another (a directive's handler, chdir). It may
 * allocate, raise errors, throw, and even bail out: no script's handler is called, errors are not reported, exceptions
 * are dropped, and the memory limit does not apply. Returns false if it has bailed out; the worker is then tainted. */
bool shim_call_suppressed(void (*step)(void *), void *argument);

#endif
