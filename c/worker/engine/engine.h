/* Hooks into Zend that only suspended requests need. */
#ifndef SVC_WORKER_ENGINE_H
#define SVC_WORKER_ENGINE_H

#include "compat.h"

#include <sys/queue.h>

/* ---- When the cycle collector runs (collector.c) ---- */

void shim_collector_install(void);
/* Resets the state of the collector; call when a worker boots. */
void shim_collector_forget(void);
bool shim_is_collecting(void);
/* Call after each bailout: PHP protects the collector, because it takes the bailout for a shutdown. If the bailout came
 * out of a collection, its buffer is only partly processed, and the collector stays protected. */
void shim_collector_unprotect(void);
/* Collects, whatever requests are active: on behalf of a request that has already ended for its client. */
void shim_collector_collect(void);
/* Whether there is enough possible garbage for a collection between two requests; shim_collector_run() runs it. */
bool shim_collector_is_due(void);
/* Returns in how many nanoseconds an idle thread should collect; negative if there is nothing to collect. */
int64_t shim_collector_idle_wait(void);
void shim_collector_run(void);

/* ---- Loading of code, which the engine can do for only one request at a time (loading.c) ---- */

void shim_loading_install(void);
/* Whether the running request is loading code, and so cannot be suspended. */
bool shim_is_loading(void);
/* Call when a request begins: loads in progress around it do not belong to it. */
void shim_loading_begin(void);
/* Call after a bailout, which has ended the loads in progress. */
void shim_loading_forget(void);

/* ---- Marks that the engine leaves on values while it walks them (marking.c) ---- */

/* Functions of a class, or global ones if `class` is NULL. In lowercase; spaces separate the names. */
typedef struct shim_function_names {
    const char *class;
    const char *names;
} shim_function_names;

typedef struct shim_function_set {
    struct shim_function_key *keys;
    size_t room;
} shim_function_set;

/* Fills an empty set with the named functions that exist in this PHP. Call after PHP has started, before other threads
 * run it; the set is never freed. */
void shim_function_set_fill(shim_function_set *set, const shim_function_names *rows, size_t count);
bool shim_function_set_has(const shim_function_set *set, const zend_function *function);

/* Whether the code that this frame executes leaves marks on values until it returns. */
bool shim_frame_marks(const zend_execute_data *frame);
/* Whether it is the frame of json_encode(). */
bool shim_frame_encodes(const zend_execute_data *frame);
/* Call after PHP has started. */
void shim_marking_install(void);

/* ---- Engine variables of a stack (stacks.c) ---- */

/* Engine variables of a thread that belong to a stack.
 *
 * Functions of PHP that call back into a script keep their state in variables of the thread: the comparison of usort(), the
 * table of serialize(), the position of the compiler. Each saves the former values and restores them when it returns, which
 * is correct for nested calls only. Of two fibers inside usort(), either may be resumed first, or be destroyed. Each stack
 * therefore has its own values: a switch saves those of the stack that it leaves and restores those of the stack that it
 * enters. A new stack starts with no call in progress.
 *
 * Invariants. Each stack has a record from its creation to its destruction, and so does the thread's own stack. A stack whose
 * record could not be allocated shares the values of the stacks that run before it, as in PHP without svc. A switch calls
 * nothing that could bail out or run a script. */

typedef struct shim_stack {
    /* NULL for the thread's own stack. */
    zend_fiber_context *context;
    /* The request that was running when the stack was last left; 0 for a boot script. */
    uint64_t left_by;
    /* The outermost call on the stack that frees an object or array (php/engine/iterative_free.c). */
    const void *free_depth;
    /* The number of loads of code in progress on the stack (worker/engine/loading.c). */
    unsigned loads;
    /* The output handler whose callback is on the stack, and the one that was running when the stack was last entered. */
    const void *output;
    const void *output_before;
    struct shim_saved *saved;
    /* Among the stacks of the thread. */
    LIST_ENTRY(shim_stack) link;
} shim_stack;

/* Returns the stack's record; NULL if there was no memory for it. */
shim_stack *shim_stack_of(const zend_fiber_context *context);
/* Returns the running stack's record, or a placeholder; never NULL. */
shim_stack *shim_stack_now(void);
/* Called when a stack is destroyed in the middle of a load. Set by worker/engine/loading.c. */
extern void (*shim_on_stack_lost_in_load)(const shim_stack *lost_stack);
/* Returns the head of the list of the thread's stacks, without its own. */
shim_stack *shim_stack_first(void);
/* Returns the number of these stacks that are fibers of scripts. */
size_t shim_stacks_of_scripts(void);
/* Returns the script's fiber that has suspended itself on this stack (Fiber::suspend()); NULL if it runs, has resumed
 * another one or is parked, or if the stack does not belong to a fiber of a script. */
zend_fiber *shim_stack_suspended(const shim_stack *stack);
/* Frees the stack of a suspended fiber without releasing the values on it. */
void shim_stack_drop(zend_fiber *suspended);
/* After a bailout: drops fibers that are inside a callback of an output handler that PHP has freed. */
void shim_stacks_drop_without_output(void);
/* Frees all records. Call before the PHP heap is destroyed, with all stacks but the thread's own, or at the end of the
 * thread. */
void shim_stacks_forget(void);
/* Adds `size` bytes of a thread's struct to the variables that belong to a stack; they are zero while no call is in
 * progress. Call after PHP has started, before other threads run it. */
void shim_stacks_add(ts_rsrc_id structure, size_t offset, size_t size);
/* Returns svc's index in the `reserved` slots of fibers' contexts and of functions; -1 if PHP has none left. */
int shim_stacks_slot(void);
/* Call after PHP has started. Returns false if PHP has no free slot in the contexts of fibers. */
bool shim_stacks_install(void);

/* ---- The root frame of a request, or of engine code that is called in the middle of a switch (root_frame.c) ---- */

void shim_root_frame_define(zend_class_entry *class, zend_module_entry *module);
/* Initializes `frame` as the root frame, and makes it the current one. */
void shim_root_frame_enter(zend_execute_data *frame);

/* ---- The memory that pcre shares among matches (pcre_match_data.c) ---- */

/* Call after PHP has started the boot request: from now on, requests of this thread match without the shared memory.
 * Returns false if out of memory. */
bool shim_pcre_match_data_begin(void);
/* Call after the boot request has ended. */
void shim_pcre_match_data_end(void);

/* ---- Where a bailout ends (guard.c) ---- */

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
