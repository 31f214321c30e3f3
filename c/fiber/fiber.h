/* Requests on stacks of their own. */
#ifndef SVC_SHIM_FIBER_H
#define SVC_SHIM_FIBER_H

#include "compat.h"
#include "context/context.h"
#include "context/request_info.h"
#include "fiber/guards.h"
#include "fiber/wait_set.h"
#include "shim.h"
#include "state/state.h"

/* The state of a fiber. */
typedef enum shim_phase {
    /* No request; the fiber is kept for the next one. */
    SHIM_PHASE_IDLE = 0,
    SHIM_PHASE_RUNNING,
    /* Waits in park.c. */
    SHIM_PHASE_PARKED,
    /* What it waited for has happened. */
    SHIM_PHASE_READY,
} shim_phase;

/* A request of worker mode, and the carrier (a stack of its own) that runs one request after another.
 *
 * The carrier is the shim's own and not a PHP object: to scripts, which have Fiber objects only for fibers that they have
 * created, a request runs outside of a fiber, as it does in php-fpm. */
typedef struct shim_fiber {
    shim_context context;
    shim_request_state state;
    shim_strings strings;
    /* Whether there is a carrier; a request on the thread's own stack has none. */
    bool is_carried;
    /* Whether it may give up its thread: not before it has begun, and not once its last parts are freed. */
    bool may_wait;
    /* What the carrier runs for each request, from its beginning to its end. */
    void (*serve)(struct shim_fiber *fiber);
    zend_fiber_context carrier;
    /* Its VM stack, and the bottom frame on it. */
    zend_vm_stack vm_stack;
    zend_execute_data *bottom;
    /* The context of the loop, to which it switches, and the context that is to be resumed: the carrier's, or that of a
     * fiber that the request has created. */
    zend_fiber_context *loop;
    zend_fiber_context *innermost;
    shim_phase phase;
    /* Whether it has ever owned, or used, a connection. */
    bool has_owned;
    /* Whether it has used a store (Redis, Memcached), and whether a store is what it has used last. */
    bool has_used_store;
    bool is_at_store;
    /* Whether it has selected another database of a store (connections/stores.c). */
    bool has_selected;
    /* Its wait for another request; NULL while it does not wait for one (owners/turns.c). */
    struct shim_blocked *blocked;
    /* The next fiber that is idle or ready. */
    struct shim_fiber *next;
    /* The neighbours among the fibers that have a request (carrier.c). */
    struct shim_fiber *next_busy;
    struct shim_fiber *previous_busy;
    /* What a parked fiber waits for, and how its wait is taken down (park.c). */
    const shim_wait_set *wait_set;
    void (*stop_waiting)(struct shim_fiber *fiber);
    /* Of the magic methods that it waits in. */
    shim_guards guards;
    /* The deadline of the set, or the time limit of the request if that is earlier; 0 if there is none. */
    int64_t deadline;
    /* Its index in the timer heap plus one; 0 if it is not in the heap. */
    uint32_t timer_place;
    /* Its number among the waiters for completions plus one; 0 if it has none. */
    uint32_t waiter;
    /* The neighbours of a parked task among those of its thread (cancel.c). */
    struct shim_fiber *next_parked;
    struct shim_fiber *previous_parked;
    /* What ended the last wait. */
    shim_woken woken;
    /* The object of Svc\per_request() whose instance has ended last (request/ending.c). */
    zend_object *ending_proxy;
    /* How many calls in a row were told that the request waits no more (hooks/hooked_wait.c). */
    unsigned refusals;
} shim_fiber;

extern __thread shim_fiber *shim_running;
/* The serial number of its request; 0 if there is none. */
uint64_t shim_running_serial(void);
/* Called when a request that has owned something is about to be suspended. */
extern void (*shim_fiber_parks)(const shim_fiber *fiber);
/* Called when nothing of a request can run any more although it has not ended. */
extern void (*shim_fiber_is_lost)(const shim_fiber *fiber);

/* Nothing of the request is left: returns it to its host. */
void shim_fiber_let_go(shim_fiber *fiber);

#endif
