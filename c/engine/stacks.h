/* What the engine keeps for a thread although it belongs to a stack.
 *
 * Functions of PHP that call a script in the middle of their work keep some of that work in variables of the thread: the
 * comparison of usort(), the table of serialize(), the position of the compiler. They put back what they have found when
 * they return, as calls return in reverse order. Stacks do not: of two fibers inside usort(), any may go on first, or be
 * destroyed. So each stack has its own values of these variables: they are saved when it stops, and in place when it goes
 * on. A new stack begins as if nothing was in progress.
 *
 * Invariants. A record exists for each stack from its creation to its destruction, and for the thread's own stack; without
 * memory for one, its stack shares the values of those that it runs between, as without svc. A switch calls nothing that
 * could bail out or run a script's code. */
#ifndef SVC_SHIM_STACKS_H
#define SVC_SHIM_STACKS_H

#include "compat.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct shim_stack {
    /* NULL for the thread's own stack. */
    zend_fiber_context *context;
    /* The request that ran when it was last left; 0 for a boot script. */
    uint64_t left_by;
    /* Where the outermost call is that frees something (engine/deep.c). */
    const void *descent;
    /* How many loads of code are in progress on it (engine/loading.c). */
    unsigned loads;
    /* The output handler whose callback it is inside of, and the one that was running when the stack was last entered. */
    const void *output;
    const void *output_before;
    struct shim_saved *saved;
    /* The neighbours among those of the thread. */
    struct shim_stack *next;
    struct shim_stack *previous;
} shim_stack;

/* The stack's record; NULL if there was no memory for it. */
shim_stack *shim_stack_of(const zend_fiber_context *context);
/* That of the running stack, or one that stands for it; never NULL. */
shim_stack *shim_stack_now(void);
/* Called when a stack is destroyed in the middle of a load. Set by engine/loading.c. */
extern void (*shim_stack_is_lost_in_load)(const shim_stack *lost_stack);
/* The first of the thread's stacks but its own. */
shim_stack *shim_stack_first(void);
/* The script's fiber that has suspended itself on this stack (Fiber::suspend()); NULL if it runs, has resumed another one or
 * is parked, or if the stack is no fiber of a script. */
zend_fiber *shim_stack_suspended(const shim_stack *stack);
/* Frees the stack of a suspended fiber, and nothing that is on it. */
void shim_stack_drop(zend_fiber *suspended);
/* After a bailout, before which PHP may have freed all output handlers: drops fibers that are inside of a callback of one. */
void shim_stacks_drop_without_output(void);
/* The PHP heap is about to be destroyed, with all stacks but the thread's own. */
void shim_stacks_forget(void);
/* Has a part of a struct of each thread belong to a stack: `size` bytes, which are zero while nothing is in progress. After
 * PHP has started, before other threads run it. */
void shim_stacks_add(ts_rsrc_id structure, size_t offset, size_t size);
/* After PHP has started. Returns false if PHP has no room in the contexts of stacks. */
bool shim_stacks_install(void);

#endif
