/* Turns; see turns.h for their states and invariants. */
#include "compat.h"
#include "context/context.h"
#include "context/host.h"
#include "fiber/cancel.h"
#include "fiber/carrier.h"
#include "fiber/park.h"
#include "fiber/ready.h"
#include "libc/clock.h"
#include "owners/turns.h"

/* A request that waits, on its own stack. */
typedef struct waiter {
    shim_fiber *fiber;
    /* What it waits for; one of the two. */
    const shim_owned *thing;
    const shim_places *places;
    /* What it is told when it goes on. */
    shim_turn turn;
    bool is_queued;
    /* It would wait for ever; computed when another one is about to wait. */
    bool is_stuck;
    struct waiter *next;
    struct waiter *previous;
} waiter;

static __thread struct {
    shim_fiber *joint;
    /* Things with an owner of their own. */
    shim_owned *owned;
    waiter *first;
    waiter *last;
} turns;

/* ---- who owns what ---- */

static shim_fiber *owner_of(const shim_owned *thing)
{
    return thing->owner != NULL || thing->is_leased || thing->is_apart ? thing->owner : turns.joint;
}

bool shim_turn_is_free(const shim_owned *thing)
{
    const shim_fiber *owner = owner_of(thing);
    return owner == NULL || owner == shim_running;
}

bool shim_turn_is_here(const shim_owned *thing)
{
    return shim_running != NULL && owner_of(thing) == shim_running;
}

void shim_turn_set_apart(shim_owned *thing)
{
    if (thing->owner == shim_running && shim_running != NULL && !thing->is_leased) {
        thing->is_apart = true;
    }
}

bool shim_turns_has_opened(const shim_fiber *fiber)
{
    const shim_owned *thing = turns.owned;
    while (thing != NULL && (thing->owner != fiber || thing->is_leased || thing->is_apart)) {
        thing = thing->next;
    }
    return thing != NULL;
}

bool shim_turns_are_joint(const shim_fiber *fiber)
{
    return turns.joint == fiber;
}

void shim_turn_own(shim_owned *thing, shim_fiber *fiber)
{
    fiber->has_owned = true;
    thing->owner = fiber;
    thing->previous = NULL;
    thing->next = turns.owned;
    if (turns.owned != NULL) {
        turns.owned->previous = thing;
    }
    turns.owned = thing;
}

static void disown(shim_owned *thing)
{
    if (thing->owner == NULL) {
        return;
    }
    if (thing->next != NULL) {
        thing->next->previous = thing->previous;
    }
    if (thing->previous != NULL) {
        thing->previous->next = thing->next;
    } else {
        turns.owned = thing->next;
    }
    thing->owner = NULL;
    thing->next = thing->previous = NULL;
}

static void give_to(shim_owned *thing, shim_fiber *fiber)
{
    if (thing->is_leased || thing->is_apart) {
        shim_turn_own(thing, fiber);
    } else {
        fiber->has_owned = true;
        turns.joint = fiber;
    }
}

/* ---- the queue ---- */

static void enqueue(waiter *one)
{
    one->is_queued = true;
    one->next = NULL;
    one->previous = turns.last;
    if (turns.last != NULL) {
        turns.last->next = one;
    } else {
        turns.first = one;
    }
    turns.last = one;
}

static void dequeue(waiter *one)
{
    if (!one->is_queued) {
        return;
    }
    one->is_queued = false;
    if (one->next != NULL) {
        one->next->previous = one->previous;
    } else {
        turns.last = one->previous;
    }
    if (one->previous != NULL) {
        one->previous->next = one->next;
    } else {
        turns.first = one->next;
    }
}

/* Its wait may have ended otherwise in this moment; it is then told both, and what it was given is its own. */
static void tell(waiter *one, shim_turn turn)
{
    one->turn = turn;
    dequeue(one);
    if (one->fiber->phase == SHIM_PHASE_PARKED) {
        shim_wake(one->fiber, SHIM_WOKEN_BY_TURN, 0);
    }
}

/* Gives what is free to those who wait for it, in the order in which they came. Some other thing may have become free for
 * each: what its owner had opened has become nobody's. */
static void pass(void)
{
    waiter *next = NULL;
    for (waiter *one = turns.first; one != NULL; one = next) {
        next = one->next;
        if (one->thing == NULL) {
            continue;
        }
        const shim_fiber *owner = owner_of(one->thing);
        if (owner == NULL) {
            give_to((shim_owned *)one->thing, one->fiber);
        }
        if (owner == NULL || owner == one->fiber) {
            tell(one, SHIM_TURN_HERE);
        }
    }
}

/* ---- who waits for ever ---- */

static bool holds_none(const shim_fiber *fiber, const shim_places *places)
{
    (void)fiber;
    (void)places;
    return false;
}

bool (*shim_turns_hold_place)(const shim_fiber *fiber, const shim_places *places) = holds_none;

static bool is_stuck(const shim_fiber *fiber)
{
    const waiter *one = turns.first;
    while (one != NULL && one->fiber != fiber) {
        one = one->next;
    }
    return one != NULL && one->is_stuck;
}

static uint32_t places_of_the_stuck(const shim_places *places)
{
    uint32_t count = 0;
    for (const waiter *one = turns.first; one != NULL; one = one->next) {
        count += one->is_stuck && shim_turns_hold_place(one->fiber, places);
    }
    return count;
}

/* Whether somebody who is not stuck may free what it waits for. */
static bool can_go_on(const waiter *one)
{
    return one->thing != NULL ? !is_stuck(owner_of(one->thing)) : places_of_the_stuck(one->places) < one->places->in_use;
}

/* Finds out who is stuck if `refused` is not; returns whether anybody is. */
static bool find_stuck(const waiter *refused)
{
    size_t left = 0;
    for (waiter *one = turns.first; one != NULL; one = one->next) {
        one->is_stuck = one != refused;
        left += one->is_stuck;
    }
    for (bool is_settled = false; !is_settled;) {
        is_settled = true;
        for (waiter *one = turns.first; one != NULL; one = one->next) {
            if (one->is_stuck && can_go_on(one)) {
                one->is_stuck = false;
                is_settled = false;
                left--;
            }
        }
    }
    return left > 0;
}

/* Only the one that has just joined the queue can have closed a circle, so most often it is enough to ask about it. */
static bool is_anybody_stuck(const waiter *latest)
{
    for (waiter *one = turns.first; one != NULL; one = one->next) {
        one->is_stuck = true;
    }
    return !can_go_on(latest) && find_stuck(NULL);
}

/* The youngest whose refusal leaves nobody stuck. */
static waiter *one_to_refuse(waiter *latest)
{
    waiter *youngest = latest;
    for (waiter *one = turns.first; one != NULL; one = one->next) {
        if (one->fiber->serial > youngest->fiber->serial && !find_stuck(one)) {
            youngest = one;
        }
    }
    return youngest;
}

/* ---- waiting ---- */

static void count(int64_t since)
{
    if (shim_current->owner != NULL) {
        shim_host.worker.waited_for_connection(shim_current->owner, (uint64_t)((shim_now() - since) / 1000));
    }
}

static shim_turn wait_for(const shim_owned *thing, const shim_places *places)
{
    if (shim_is_cancelled()) {
        return SHIM_TURN_OVER;
    }
    if (!shim_fiber_may_park()) {
        return SHIM_TURN_STUCK;
    }
    waiter own = {.fiber = shim_running, .thing = thing, .places = places, .turn = SHIM_TURN_OVER};
    const int64_t since = shim_now();
    enqueue(&own);
    if (is_anybody_stuck(&own)) {
        waiter *refused = one_to_refuse(&own);
        if (refused == &own) {
            dequeue(&own);
            return SHIM_TURN_REFUSED;
        }
        tell(refused, SHIM_TURN_REFUSED);
    }
    const shim_woken_by by = shim_park(&(shim_wait_set){.awaits_turn = true}).by;
    dequeue(&own);
    if (by == SHIM_NEVER_PARKED) {
        return SHIM_TURN_STUCK;
    }
    if (thing != NULL) {
        count(since);
    }
    return own.turn;
}

shim_turn shim_turn_take(shim_owned *thing)
{
    if (shim_turn_is_here(thing)) {
        return SHIM_TURN_HERE;
    }
    if (owner_of(thing) == NULL) {
        give_to(thing, shim_running);
        return SHIM_TURN_HERE;
    }
    return wait_for(thing, NULL);
}

shim_turn shim_turn_take_place(shim_places *places)
{
    if (places->in_use < places->max) {
        places->in_use++;
        return SHIM_TURN_HERE;
    }
    return wait_for(NULL, places);
}

void shim_turn_give_place(shim_places *places)
{
    waiter *one = turns.first;
    while (one != NULL && one->places != places) {
        one = one->next;
    }
    if (one != NULL) {
        tell(one, SHIM_TURN_HERE);
    } else {
        places->in_use--;
    }
}

/* ---- the end of an ownership ---- */

void shim_turn_give(shim_owned *thing)
{
    disown(thing);
    pass();
}

void shim_turn_forget(shim_owned *thing)
{
    disown(thing);
    waiter *next = NULL;
    for (waiter *one = turns.first; one != NULL; one = next) {
        next = one->next;
        if (one->thing == thing) {
            tell(one, SHIM_TURN_GONE);
        }
    }
}

static void end(const shim_fiber *fiber, bool with_leases)
{
    shim_owned *next = NULL;
    bool had_any = turns.joint == fiber;
    for (shim_owned *thing = turns.owned; thing != NULL; thing = next) {
        next = thing->next;
        if (thing->owner == fiber && (with_leases || !thing->is_leased)) {
            disown(thing);
            had_any = true;
        }
    }
    if (turns.joint == fiber) {
        turns.joint = NULL;
    }
    if (had_any) {
        pass();
    }
}

void shim_turns_end(const shim_fiber *fiber)
{
    end(fiber, true);
}

void shim_turns_release(const shim_fiber *fiber)
{
    end(fiber, false);
}

void shim_turns_forget(void)
{
    while (turns.owned != NULL) {
        disown(turns.owned);
    }
    turns.joint = NULL;
    turns.first = turns.last = NULL;
}

void shim_turns_install(void)
{
    shim_fiber_is_lost = shim_turns_end;
}
