/* Ownership: the owner of each thing, and the lender of a borrowed one. owners.h has the states and invariants.
 *
 * The functions here change owners and do not wait; wait_queue.c decides when they are called, and wakes the waiters. */
#include "compat.h"
#include "worker/connections/owners/owners.h"
#include "worker/stack/stack.h"

static __thread struct {
    /* Placeholder for all things without an individual owner. */
    shim_owned shared;
    /* The shared owner has used something without a record, so whether it is at rest is unknown. */
    bool is_shared_unknown;
    /* Things with an individual owner, and `shared` if it has one. */
    LIST_HEAD(, shim_owned) owned;
} owners;

shim_owned_callbacks shim_owned_callback;

static bool is_shared(const shim_owned *thing)
{
    return thing->owner == NULL && !thing->is_leased && !thing->is_exclusive;
}

shim_fiber *shim_owner_of(const shim_owned *thing)
{
    return is_shared(thing) ? owners.shared.owner : thing->owner;
}

shim_owned *shim_owner_shared(void)
{
    return &owners.shared;
}

bool shim_owner_shared_is_unknown(void)
{
    return owners.is_shared_unknown;
}

void shim_owner_shared_set_unknown(bool is_unknown)
{
    owners.is_shared_unknown = is_unknown;
}

bool shim_owner_is_borrower(const shim_owned *thing)
{
    return is_shared(thing) ? owners.shared.is_lent : thing->is_lent;
}

void shim_owner_set_exclusive(shim_owned *thing)
{
    if (thing->owner == shim_running && shim_running != NULL && !thing->is_leased && !thing->is_lent) {
        thing->is_exclusive = true;
    }
}

bool shim_owner_has_opened(const shim_fiber *fiber)
{
    const shim_owned *thing = LIST_FIRST(&owners.owned);
    while (thing != NULL && (thing->owner != fiber || thing->is_leased || thing->is_exclusive || thing->is_lent ||
                             thing == &owners.shared)) {
        thing = LIST_NEXT(thing, link);
    }
    return thing != NULL;
}

void shim_owner_set(shim_owned *thing, shim_fiber *fiber)
{
    fiber->has_used_connection = true;
    thing->owner = fiber;
    if (thing == &owners.shared) {
        /* A request that gets it back has lent it at rest. */
        owners.is_shared_unknown = false;
    }
    LIST_INSERT_HEAD(&owners.owned, thing, link);
}

static void disown(shim_owned *thing)
{
    if (thing->owner != NULL) {
        LIST_REMOVE(thing, link);
        thing->owner = NULL;
    }
}

void shim_owner_grant(shim_owned *thing, shim_fiber *fiber)
{
    shim_owner_set(is_shared(thing) ? &owners.shared : thing, fiber);
}

void shim_owner_lend(shim_owned *thing, shim_fiber *owner, shim_fiber *borrower)
{
    shim_fiber *lender = thing->owner == owner ? owner : NULL;
    shim_owned_callback.is_left(thing, owner);
    disown(thing);
    shim_owner_set(thing, borrower);
    thing->is_lent = true;
    thing->lender = lender;
}

void shim_owner_remove(shim_owned *thing)
{
    disown(thing);
    thing->is_lent = false;
    thing->lender = NULL;
}

void shim_owner_take_back(shim_owned *thing)
{
    shim_fiber *lender = thing->is_lent ? thing->lender : NULL;
    shim_owner_remove(thing);
    if (lender != NULL) {
        shim_owner_set(thing, lender);
    }
}

void shim_owner_note_use(const shim_owned *thing)
{
    if (thing->is_unknown && is_shared(thing)) {
        owners.is_shared_unknown = true;
    }
}

bool shim_owner_end(const shim_fiber *fiber, bool with_leases)
{
    shim_owned *next = NULL;
    bool had_any = false;
    for (shim_owned *thing = LIST_FIRST(&owners.owned); thing != NULL; thing = next) {
        next = LIST_NEXT(thing, link);
        if (thing->lender == fiber) {
            thing->lender = NULL;
        }
        if (thing->owner == fiber && (with_leases || !thing->is_leased || thing->is_passed_on)) {
            shim_owner_take_back(thing);
            had_any = true;
        }
    }
    return had_any;
}

void shim_owners_forget(void)
{
    while (!LIST_EMPTY(&owners.owned)) {
        disown(LIST_FIRST(&owners.owned));
    }
}
