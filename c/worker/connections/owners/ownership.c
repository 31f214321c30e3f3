/* Ownership: the owner of each resource, and the lender of a borrowed one. owners.h has the states and invariants.
 *
 * The functions here change owners and do not wait; wait_queue.c decides when they are called, and wakes the waiters. */
#include "compat.h"
#include "worker/connections/owners/owners.h"
#include "worker/stack/stack.h"

static __thread struct {
    /* Placeholder for all resources without an individual owner. */
    shim_owned shared;
    /* The shared owner has used something without a record, so whether it is at rest is unknown. */
    bool is_shared_unknown;
    /* Resources with an individual owner, and `shared` if it has one. */
    LIST_HEAD(, shim_owned) owned;
} owners;

shim_owned_callbacks shim_owned_callback;

static bool is_shared(const shim_owned *resource)
{
    return resource->owner == NULL && !resource->is_leased && !resource->is_exclusive;
}

shim_fiber *shim_owner_of(const shim_owned *resource)
{
    return is_shared(resource) ? owners.shared.owner : resource->owner;
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

bool shim_owner_is_borrower(const shim_owned *resource)
{
    return is_shared(resource) ? owners.shared.is_lent : resource->is_lent;
}

void shim_owner_set_exclusive(shim_owned *resource)
{
    if (resource->owner == shim_running && shim_running != NULL && !resource->is_leased && !resource->is_lent) {
        resource->is_exclusive = true;
    }
}

bool shim_owner_has_opened(const shim_fiber *fiber)
{
    const shim_owned *resource = LIST_FIRST(&owners.owned);
    while (resource != NULL && (resource->owner != fiber || resource->is_leased || resource->is_exclusive ||
                                resource->is_lent || resource == &owners.shared)) {
        resource = LIST_NEXT(resource, link);
    }
    return resource != NULL;
}

void shim_owner_set(shim_owned *resource, shim_fiber *fiber)
{
    fiber->has_used_connection = true;
    resource->owner = fiber;
    if (resource == &owners.shared) {
        /* A request that gets it back has lent it at rest. */
        owners.is_shared_unknown = false;
    }
    LIST_INSERT_HEAD(&owners.owned, resource, link);
}

static void disown(shim_owned *resource)
{
    if (resource->owner != NULL) {
        LIST_REMOVE(resource, link);
        resource->owner = NULL;
    }
}

void shim_owner_grant(shim_owned *resource, shim_fiber *fiber)
{
    shim_owner_set(is_shared(resource) ? &owners.shared : resource, fiber);
}

void shim_owner_lend(shim_owned *resource, shim_fiber *owner, shim_fiber *borrower)
{
    shim_fiber *lender = resource->owner == owner ? owner : NULL;
    shim_owned_callback.is_left(resource, owner);
    disown(resource);
    shim_owner_set(resource, borrower);
    resource->is_lent = true;
    resource->lender = lender;
}

void shim_owner_remove(shim_owned *resource)
{
    disown(resource);
    resource->is_lent = false;
    resource->lender = NULL;
}

void shim_owner_take_back(shim_owned *resource)
{
    shim_fiber *lender = resource->is_lent ? resource->lender : NULL;
    shim_owner_remove(resource);
    if (lender != NULL) {
        shim_owner_set(resource, lender);
    }
}

void shim_owner_note_use(const shim_owned *resource)
{
    if (resource->is_unknown && is_shared(resource)) {
        owners.is_shared_unknown = true;
    }
}

bool shim_owner_end(const shim_fiber *fiber, bool with_leases)
{
    shim_owned *next = NULL;
    bool had_any = false;
    for (shim_owned *resource = LIST_FIRST(&owners.owned); resource != NULL; resource = next) {
        next = LIST_NEXT(resource, link);
        if (resource->lender == fiber) {
            resource->lender = NULL;
        }
        if (resource->owner == fiber && (with_leases || !resource->is_leased || resource->is_passed_on)) {
            shim_owner_take_back(resource);
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
