/* Requests on stacks of their own. */
#ifndef SVC_SHIM_FIBER_H
#define SVC_SHIM_FIBER_H

#include "compat.h"
#include "context/context.h"
#include "context/request_info.h"
#include "fiber/wait_set.h"
#include "shim.h"
#include "state/state.h"

/* Where a fiber's request is. */
typedef enum shim_phase {
    /* No request: kept for the next one. */
    SHIM_PHASE_IDLE = 0,
    SHIM_PHASE_RUNNING,
    /* It waits in park.c. */
    SHIM_PHASE_PARKED,
    /* What it waited for has come. */
    SHIM_PHASE_READY,
} shim_phase;

/* A request of worker mode, and the carrier (a stack of its own) that runs one after the other.
 *
 * The carrier is ours and no object of PHP's; each request gets a Fiber object of its own, which scripts see as the
 * current one and which nobody sees again in another request. */
typedef struct shim_fiber {
    shim_context context;
    shim_request_state state;
    shim_strings strings;
    /* Whether there is a carrier; a request on the thread's own stack has none, and no Fiber. */
    bool is_carried;
    /* What the carrier runs for each request: from its beginning to its end. */
    void (*serve)(struct shim_fiber *fiber);
    zend_fiber_context carrier;
    /* Its VM stack, and the frame at the bottom of it. */
    zend_vm_stack vm_stack;
    zend_execute_data *bottom;
    /* The loop's context, to which it switches, and the one of its own that is to be resumed: of the carrier, or of a
     * fiber that the request has made. */
    zend_fiber_context *loop;
    zend_fiber_context *innermost;
    /* The request's Fiber; NULL: it has not begun, or has ended. */
    zend_fiber *php;
    shim_phase phase;
    /* The next one that is idle or ready. */
    struct shim_fiber *next;
    /* What a parked one waits for, and how its wait is taken down (park.c). */
    const shim_wait_set *wait_set;
    void (*stop_waiting)(struct shim_fiber *fiber);
    /* The deadline of the set, or the time limit of the request if that is earlier; 0: none. */
    int64_t deadline;
    /* Its place among the timers and one more; 0: none. */
    uint32_t timer_place;
    /* Its number among those that wait for completions and one more; 0: none. */
    uint32_t waiter;
    /* What has ended the last wait. */
    shim_woken woken;
} shim_fiber;

extern __thread shim_fiber *shim_running;

/* Gives the request a new Fiber, which is the current one from then on; may jump. */
void shim_fiber_identify(shim_fiber *fiber);
/* Takes it away, with what scripts have hung on it; may run their code. */
void shim_fiber_retire(shim_fiber *fiber);
/* Nothing is left of the request: its host has it back. */
void shim_fiber_let_go(shim_fiber *fiber);

#endif
