/* Acquisition: the queue of the requests that wait, for resources, permits, locks and tasks. owners.h has the states and
 * invariants.
 *
 * One file, because three decisions are about the same queue: which waiter is next, what an owner lends it, and how a
 * deadlock among them ends. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"
#include "worker/connections/owners/graph.h"
#include "worker/connections/owners/owners.h"
#include "worker/stack/stack.h"

/* After this time, a request counts as overdue, and may borrow from an owner that waits for something outside of the
 * thread. With a time limit, half of the remaining time, if that is less. */
#define PATIENCE_NS INT64_C(1000000000)

/* A request that waits, on its stack. */
typedef struct waiter {
    shim_blocked blocked;
    shim_fiber *fiber;
    /* It waits for one of these; the others are NULL. */
    shim_owned *resource;
    const shim_permits *permits;
    const shim_file_lock *lock;
    const shim_awaited_tasks *tasks;
    /* The result of its wait. */
    shim_acquisition result;
    bool is_queued;
    /* It has waited for longer than its patience (overdue_at). */
    bool is_overdue;
} waiter;

/* The requests that wait, in the order in which they have come. */
static __thread shim_queue waiting;

static waiter *waiter_of(const shim_blocked *blocked)
{
    return (waiter *)((char *)blocked - offsetof(waiter, blocked));
}

bool (*shim_permit_is_held)(const shim_fiber *fiber, const shim_permits *permits);
bool (*shim_file_lock_is_held)(const shim_fiber *fiber, const shim_file_lock *lock);
shim_deadlock_thrower *shim_deadlock_throw;

/* ---- lending ---- */

/* Whether the running request owns it, exclusively or as the shared owner. */
static bool is_owned_here(const shim_owned *resource)
{
    return shim_running != NULL && shim_owner_of(resource) == shim_running;
}

static bool are_tasks_of_one_request(const shim_fiber *one, const shim_fiber *other)
{
    if (!one->context.is_task || !other->context.is_task || one->context.host == NULL || other->context.host == NULL) {
        return false;
    }
    shim_view first = {0}, second = {0};
    shim_host.io.request_id(one->context.host, &first);
    shim_host.io.request_id(other->context.host, &second);
    return first.length > 0 && first.length == second.length && memcmp(first.bytes, second.bytes, first.length) == 0;
}

/* The length of a chain of requests that leads_outside follows. */
enum { STEPS_MAX = 8 };

/* Whether the request waits for a lock that another thread or program holds, or for requests that do. */
static bool leads_outside(const shim_fiber *fiber, unsigned steps)
{
    if (fiber == NULL || fiber->blocked == NULL || steps == 0) {
        return false;
    }
    const waiter *one = waiter_of(fiber->blocked);
    if (one->resource != NULL) {
        return leads_outside(shim_owner_of(one->resource), steps - 1);
    }
    if (one->lock == NULL) {
        return false;
    }
    for (const shim_blocked *other = waiting.first; other != NULL; other = other->next) {
        const shim_fiber *holder = waiter_of(other)->fiber;
        if (holder != fiber && shim_file_lock_is_held(holder, one->lock) && leads_outside(holder, steps - 1)) {
            return true;
        }
    }
    return !shim_file_lock_is_held(NULL, one->lock);
}

static bool waits_for_session(const shim_fiber *fiber)
{
    const waiter *one = fiber->blocked != NULL ? waiter_of(fiber->blocked) : NULL;
    return one != NULL && one->lock != NULL && one->lock->is_session;
}

/* Whether the parked owner leaves a resource at rest to the waiter. */
static bool lends_to(const shim_fiber *owner, const waiter *one)
{
    switch (owner->wait_set->purpose) {
    case SHIM_WAITS_FOR_CLIENT:
    case SHIM_WAITS_FOR_SESSION:
        return true;
    case SHIM_WAITS_FOR_TASKS:
        if (are_tasks_of_one_request(owner, one->fiber)) {
            return true;
        }
        break;
    case SHIM_WAITS_FOR_TIME:
        if (owner->is_at_store && one->fiber->has_used_store && !shim_owned_callback.keeps_state(one->resource, owner)) {
            return true;
        }
        break;
    case SHIM_WAITS_TO_ACQUIRE:
        if (leads_outside(owner, STEPS_MAX) &&
            (one->is_overdue || waits_for_session(owner) || !shim_owned_callback.keeps_state(one->resource, owner))) {
            return true;
        }
        break;
    default:
        break;
    }
    return one->is_overdue && !shim_owned_callback.keeps_state(one->resource, owner);
}

/* Grants the resource if it is free, or if its owner lends it. Returns whether the request now owns it. */
static bool try_grant(const waiter *one)
{
    shim_owned *resource = one->resource;
    for (;;) {
        shim_fiber *owner = shim_owner_of(resource);
        if (owner == NULL) {
            shim_owner_grant(resource, one->fiber);
            return true;
        }
        if (owner == one->fiber) {
            return true;
        }
        const bool is_left = resource->is_passed_on || (resource->is_lent && resource->owner == owner);
        if (owner->phase != SHIM_PHASE_PARKED || !(is_left || lends_to(owner, one)) ||
            !shim_owned_callback.is_at_rest(resource, owner)) {
            return false;
        }
        if (!is_left) {
            shim_owner_lend(resource, owner, one->fiber);
            return true;
        }
        shim_owned_callback.is_left(resource, owner);
        shim_owner_take_back(resource);
    }
}

bool shim_owned_is_free(const shim_owned *resource)
{
    const shim_fiber *owner = shim_owner_of(resource);
    return owner == NULL || owner == shim_running ||
           (resource->is_passed_on && owner->phase == SHIM_PHASE_PARKED && shim_owned_callback.is_at_rest(resource, owner));
}

/* ---- the queue ---- */

static void enqueue(waiter *one)
{
    one->is_queued = true;
    one->blocked.serial = one->fiber->context.serial;
    one->fiber->blocked = &one->blocked;
    shim_queue_add(&waiting, &one->blocked);
}

static void dequeue(waiter *one)
{
    if (one->is_queued) {
        one->is_queued = false;
        one->fiber->blocked = NULL;
        shim_queue_remove(&waiting, &one->blocked);
    }
}

/* Ends the wait of `one`. If the wait has just ended for another reason, both hold: the request keeps what it was given. */
static void end_wait(waiter *one, shim_acquisition result)
{
    one->result = result;
    dequeue(one);
    if (one->fiber->phase == SHIM_PHASE_PARKED) {
        shim_wake(one->fiber, SHIM_WOKEN_BY_REQUEST, 0);
    }
}

/* Gives free resources to their waiters, in the order of the queue. Walks the whole queue: the end of an owner frees several
 * resources at once. */
static void grant_free_resources(void)
{
    shim_blocked *next = NULL;
    for (shim_blocked *blocked = waiting.first; blocked != NULL; blocked = next) {
        waiter *one = waiter_of(blocked);
        next = blocked->next;
        if (one->resource != NULL && try_grant(one)) {
            end_wait(one, SHIM_ACQUIRED);
        }
    }
}

/* The request is about to wait: gives what it leaves meanwhile to other requests. */
static void grant_resources_of(const shim_fiber *fiber)
{
    shim_blocked *next = NULL;
    for (shim_blocked *blocked = waiting.first; blocked != NULL; blocked = next) {
        waiter *one = waiter_of(blocked);
        next = blocked->next;
        if (one->resource != NULL && shim_owner_of(one->resource) == fiber && try_grant(one)) {
            end_wait(one, SHIM_ACQUIRED);
        }
    }
}

/* ---- deadlocks ---- */

static bool is_stuck(const shim_fiber *fiber)
{
    return fiber->blocked != NULL && fiber->blocked->is_stuck;
}

static bool may_get_permit(const shim_queue *queue, const shim_permits *permits)
{
    uint32_t lost = 0;
    for (const shim_blocked *other = queue->first; other != NULL; other = other->next) {
        lost += other->is_stuck && shim_permit_is_held(waiter_of(other)->fiber, permits);
    }
    return lost < permits->in_use;
}

static bool may_get_lock(const shim_queue *queue, const waiter *one)
{
    const shim_blocked *other = queue->first;
    while (other != NULL && !(other->is_stuck && waiter_of(other)->fiber != one->fiber &&
                              shim_file_lock_is_held(waiter_of(other)->fiber, one->lock))) {
        other = other->next;
    }
    return other == NULL;
}

static bool is_among(const shim_awaited_tasks *tasks, const shim_fiber *fiber)
{
    size_t i = 0;
    while (i < tasks->count && !shim_host.task.runs_task(fiber->context.host, tasks->list[i])) {
        i++;
    }
    return i < tasks->count;
}

static bool may_see_tasks_settled(const shim_queue *queue, const shim_awaited_tasks *tasks)
{
    size_t stuck = 0;
    for (const shim_blocked *other = queue->first; other != NULL; other = other->next) {
        const shim_fiber *fiber = waiter_of(other)->fiber;
        stuck += other->is_stuck && fiber->context.is_task && fiber->context.host != NULL && is_among(tasks, fiber);
    }
    return tasks->needs_all ? stuck == 0 : stuck < tasks->count;
}

static bool can_go_on(const shim_queue *queue, const shim_blocked *blocked)
{
    const waiter *one = waiter_of(blocked);
    if (one->tasks != NULL) {
        return may_see_tasks_settled(queue, one->tasks);
    }
    if (one->lock != NULL) {
        return may_get_lock(queue, one);
    }
    return one->resource != NULL ? !is_stuck(shim_owner_of(one->resource)) : may_get_permit(queue, one->permits);
}

static bool can_borrow(const shim_queue *queue, const shim_blocked *blocked)
{
    (void)queue;
    const waiter *one = waiter_of(blocked);
    const shim_fiber *owner = one->resource != NULL ? shim_owner_of(one->resource) : NULL;
    return owner != NULL && owner != one->fiber && is_stuck(owner) && shim_owned_callback.is_at_rest(one->resource, owner);
}

static void lend_to(const waiter *one)
{
    shim_fiber *owner = shim_owner_of(one->resource);
    if (one->resource->is_lent && one->resource->owner == owner) {
        shim_owned_callback.is_left(one->resource, owner);
        shim_owner_take_back(one->resource);
        owner = shim_owner_of(one->resource);
    }
    if (owner == NULL) {
        shim_owner_grant(one->resource, one->fiber);
    } else if (owner != one->fiber) {
        shim_owner_lend(one->resource, owner, one->fiber);
    }
}

/* Resolves the deadlock, if any, that the request closed when it joined the queue. */
static void resolve_deadlock(waiter *latest)
{
    static const shim_graph_callbacks ask = {.can_go_on = can_go_on, .can_borrow = can_borrow};
    while (latest->is_queued) {
        const shim_decision decision = shim_graph_decide(&waiting, &latest->blocked, &ask);
        if (decision.way == SHIM_WAY_OUT_NONE) {
            return;
        }
        waiter *who = waiter_of(decision.who);
        if (decision.way == SHIM_WAY_OUT_LEND) {
            lend_to(who);
        }
        end_wait(who, decision.way == SHIM_WAY_OUT_LEND ? SHIM_ACQUIRED : SHIM_ACQUIRE_DEADLOCK);
    }
}

/* ---- waiting ---- */

static void count_wait(int64_t since)
{
    if (shim_current->owner != NULL) {
        shim_host.worker.waited_for_connection(shim_current->owner, (uint64_t)((shim_now() - since) / 1000));
    }
}

static bool is_past_limit(int64_t now)
{
    const int64_t limit = shim_timer_deadline();
    return limit > 0 && now >= limit;
}

static int64_t overdue_at(int64_t now)
{
    const int64_t limit = shim_timer_deadline();
    const int64_t half = limit > now ? (limit - now) / 2 : PATIENCE_NS;
    return now + (limit > 0 && half < PATIENCE_NS ? half : PATIENCE_NS);
}

/* Parks until its grant, or another end of its wait. Once overdue, it may borrow. Returns false if it could not park. */
static bool park(waiter *own, int64_t since)
{
    shim_wait_set set = {
        .awaits_grant = true, .deadline = own->resource != NULL ? overdue_at(since) : 0, .purpose = SHIM_WAITS_TO_ACQUIRE};
    for (;;) {
        const shim_woken_by by = shim_park(&set).by;
        if (by != SHIM_WOKEN_BY_TIME || !own->is_queued || set.deadline == 0 || is_past_limit(shim_now())) {
            return by != SHIM_NEVER_PARKED;
        }
        own->is_overdue = true;
        set.deadline = 0;
        if (try_grant(own)) {
            own->result = SHIM_ACQUIRED;
            return true;
        }
    }
}

static shim_acquisition wait_for(waiter *own)
{
    if (shim_is_cancelled()) {
        return SHIM_ACQUIRE_EXPIRED;
    }
    if (!shim_fiber_may_park()) {
        return SHIM_ACQUIRE_WOULD_BLOCK;
    }
    const int64_t since = shim_now();
    own->blocked.may_be_refused = true;
    own->result = SHIM_ACQUIRE_EXPIRED;
    enqueue(own);
    resolve_deadlock(own);
    const bool has_waited = !own->is_queued || park(own, since);
    dequeue(own);
    if (!has_waited) {
        return SHIM_ACQUIRE_WOULD_BLOCK;
    }
    if (own->resource != NULL && own->result != SHIM_ACQUIRE_DEADLOCK) {
        count_wait(since);
    }
    return own->result;
}

shim_acquisition shim_owned_acquire(shim_owned *resource)
{
    waiter own = {.fiber = shim_running, .resource = resource};
    const bool is_here = is_owned_here(resource) || try_grant(&own);
    const shim_acquisition result = is_here ? SHIM_ACQUIRED : wait_for(&own);
    shim_owner_note_use(resource);
    return result;
}

shim_acquisition shim_permit_acquire(shim_permits *permits)
{
    if (permits->in_use < permits->max) {
        permits->in_use++;
        return SHIM_ACQUIRED;
    }
    return wait_for(&(waiter){.fiber = shim_running, .permits = permits});
}

void shim_permit_release(shim_permits *permits)
{
    shim_blocked *blocked = waiting.first;
    while (blocked != NULL && waiter_of(blocked)->permits != permits) {
        blocked = blocked->next;
    }
    if (blocked != NULL) {
        end_wait(waiter_of(blocked), SHIM_ACQUIRED);
    } else {
        permits->in_use--;
    }
}

/* A request that polls for a lock of another thread delays requests that need what it has not lent: pause briefly. */
#define LOCK_PAUSE_MAX_NS INT64_C(4000000)

/* No event reports that another program has released a lock: the caller retries after each pause. */
shim_acquisition shim_file_lock_pause(const shim_file_lock *lock, bool may_be_refused, int64_t *pause,
                                  shim_completion *completion)
{
    if (!shim_fiber_may_park()) {
        return SHIM_ACQUIRE_WOULD_BLOCK;
    }
    waiter own = {
        .fiber = shim_running, .lock = lock, .blocked = {.may_be_refused = may_be_refused}, .result = SHIM_ACQUIRED};
    enqueue(&own);
    resolve_deadlock(&own);
    shim_woken_by by = SHIM_WOKEN_BY_REQUEST;
    if (own.is_queued) {
        shim_pause_lengthen(pause);
        *pause = *pause < LOCK_PAUSE_MAX_NS ? *pause : LOCK_PAUSE_MAX_NS;
        by = shim_park(&(shim_wait_set){.awaits_grant = true,
                                        .completions = &completion,
                                        .completion_count = completion != NULL,
                                        .deadline = shim_now() + *pause,
                                        .purpose = SHIM_WAITS_TO_ACQUIRE})
                 .by;
    }
    dequeue(&own);
    return by == SHIM_NEVER_PARKED ? SHIM_ACQUIRE_WOULD_BLOCK : own.result;
}

/* An await of more tasks takes no part in the search for deadlocks. */
enum { AWAITED_MAX = 256 };

shim_woken_by shim_tasks_await(const shim_wait_set *set, const shim_awaited_tasks *tasks)
{
    if (tasks->count > AWAITED_MAX || !shim_fiber_may_park() || shim_is_cancelled()) {
        return shim_park(set).by;
    }
    waiter own = {.fiber = shim_running, .tasks = tasks, .blocked = {.may_be_refused = true}, .result = SHIM_ACQUIRED};
    shim_wait_set queued = *set;
    queued.awaits_grant = true;
    enqueue(&own);
    resolve_deadlock(&own);
    const shim_woken_by by = own.is_queued ? shim_park(&queued).by : SHIM_WOKEN_BY_REQUEST;
    dequeue(&own);
    return by;
}

/* ---- the end of an ownership ---- */

void shim_owned_release(shim_owned *resource)
{
    shim_owner_take_back(resource);
    grant_free_resources();
}

void shim_owned_forget(shim_owned *resource)
{
    shim_owner_remove(resource);
    shim_blocked *next = NULL;
    for (shim_blocked *blocked = waiting.first; blocked != NULL; blocked = next) {
        next = blocked->next;
        if (waiter_of(blocked)->resource == resource) {
            end_wait(waiter_of(blocked), SHIM_ACQUIRE_DESTROYED);
        }
    }
}

static void end(const shim_fiber *fiber, bool with_leases)
{
    if (shim_owner_end(fiber, with_leases)) {
        grant_free_resources();
    }
}

void shim_owned_release_all(const shim_fiber *fiber)
{
    end(fiber, true);
}

void shim_owned_release_unleased(const shim_fiber *fiber)
{
    end(fiber, false);
}

void shim_wait_queue_forget(void)
{
    shim_owners_forget();
    waiting = (shim_queue){0};
}

void shim_wait_queue_install(void)
{
    shim_fiber_parks = grant_resources_of;
    shim_fiber_is_lost = shim_owned_release_all;
}
