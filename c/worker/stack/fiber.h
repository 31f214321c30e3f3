/* Requests on their own stacks. */
#ifndef SVC_SHIM_FIBER_H
#define SVC_SHIM_FIBER_H

#include "compat.h"
#include "php/context/context.h"
#include "php/context/request_info.h"
#include "shim.h"
#include "worker/stack/guards.h"
#include "worker/stack/wait_set.h"
#include "worker/state/state.h"

/* The state of a fiber. */
typedef enum shim_phase {
    /* Has no request; kept for the next one. */
    SHIM_PHASE_IDLE = 0,
    SHIM_PHASE_RUNNING,
    /* Waits in park.c. */
    SHIM_PHASE_PARKED,
    /* The event that it waited for has happened. */
    SHIM_PHASE_READY,
} shim_phase;

/* A request of worker mode, and the carrier (a separate stack) that runs one request after another.
 *
 * The carrier belongs to the shim and is not a PHP object: scripts have Fiber objects only for fibers that they have
 * created; for them, a request runs outside of a fiber, as in php-fpm. */
typedef struct shim_fiber {
    shim_context context;
    shim_request_state state;
    shim_strings strings;
    /* Whether there is a carrier; requests on the thread's own stack have none. */
    bool is_carried;
    /* Whether it may yield its thread: not before it has begun, and not once its last parts are freed. */
    bool may_wait;
    /* The function that the carrier runs for each request, from its beginning to its end. */
    void (*serve)(struct shim_fiber *fiber);
    zend_fiber_context carrier;
    /* The carrier's VM stack, and the bottom frame on it. */
    zend_vm_stack vm_stack;
    zend_execute_data *bottom;
    /* The context of the loop, to which it switches, and the context to resume: the carrier's, or that of a fiber that
     * the request has created. */
    zend_fiber_context *loop;
    zend_fiber_context *innermost;
    shim_phase phase;
    /* Whether it has ever owned or used a connection. */
    bool has_owned;
    /* Whether it has used a store (Redis, Memcached), and whether its last used connection is to a store. */
    bool has_used_store;
    bool is_at_store;
    /* Whether it has selected another database of a store (worker/connections/stores.c). */
    bool has_selected;
    /* Its wait for another request; NULL while it does not wait for one (worker/connections/owners/turns.c). */
    struct shim_blocked *blocked;
    /* The next fiber that is idle or ready. */
    struct shim_fiber *next;
    /* The neighbours among the fibers that have a request (carrier.c). */
    struct shim_fiber *next_busy;
    struct shim_fiber *previous_busy;
    /* The set that a parked fiber waits for, and the function that takes the wait down (park.c). */
    const shim_wait_set *wait_set;
    void (*stop_waiting)(struct shim_fiber *fiber);
    /* The guards of the magic methods that it waits in. */
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
    /* The event that ended the last wait. */
    shim_woken woken;
    /* The object of Svc\per_request() whose instance ended last (worker/request/ending.c). */
    zend_object *ending_proxy;
    /* The number of consecutive calls that were refused because the request no longer waits (worker/hooks/hooked_wait.c). */
    unsigned refusals;
} shim_fiber;

extern __thread shim_fiber *shim_running;
/* Returns the serial number of the running request; 0 if there is none. */
uint64_t shim_running_serial(void);
/* Called before a request that has owned a connection is suspended. */
extern void (*shim_fiber_parks)(const shim_fiber *fiber);
/* Called when a request can no longer run although it has not ended. */
extern void (*shim_fiber_is_lost)(const shim_fiber *fiber);

/* Nothing of the request is left: returns it to its host. */
void shim_fiber_let_go(shim_fiber *fiber);

#endif
