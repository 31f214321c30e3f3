/* Where the instances of an object come from that has one for each request. */
#include "compat.h"
#include "context/context.h"
#include "context/host.h"
#include "fiber/cancel.h"
#include "fiber/park.h"
#include "instances/source.h"
#include "transfer/exceptions.h"

#include <ext/spl/spl_exceptions.h>

/* On the stack of whoever waits. */
typedef struct shim_source_waiter {
    struct shim_source_waiter *next;
    shim_completer *completer;
    /* A place is the waiter's. */
    bool is_served;
} shim_source_waiter;

static void enqueue(shim_source *source, shim_source_waiter *waiter)
{
    waiter->next = NULL;
    if (source->last != NULL) {
        source->last->next = waiter;
    } else {
        source->first = waiter;
    }
    source->last = waiter;
}

static void leave(shim_source *source, const shim_source_waiter *waiter)
{
    shim_source_waiter *before = NULL;
    for (shim_source_waiter *at = source->first; at != NULL; before = at, at = at->next) {
        if (at != waiter) {
            continue;
        }
        *(before != NULL ? &before->next : &source->first) = at->next;
        if (source->last == at) {
            source->last = before;
        }
        return;
    }
}

static bool throw_unserved(const shim_source *source, shim_woken_by by)
{
    if (by == SHIM_WOKEN_BY_CANCEL) {
        shim_cancelled_throw();
    } else {
        zend_throw_exception_ex(spl_ce_RuntimeException, 0, "All %u instances of %s are in use, and the request %s", source->max,
                                ZSTR_VAL(source->class->name),
                                by == SHIM_NEVER_PARKED ? "cannot wait here" : "has waited until its time limit");
    }
    return false;
}

/* Waits until somebody gives a place back. */
static bool wait_for_place(shim_source *source)
{
    shim_completion *completion = NULL;
    shim_source_waiter waiter = {0};
    if (!shim_host.completion.make(&completion, &waiter.completer)) {
        return throw_unserved(source, SHIM_NEVER_PARKED);
    }
    enqueue(source, &waiter);
    const shim_woken_by by = shim_park(&(shim_wait_set){.completions = &completion, .completion_count = 1}).by;
    shim_host.completion.drop(completion);
    if (waiter.is_served) {
        return true;
    }
    leave(source, &waiter);
    shim_host.completion.complete(waiter.completer);
    return throw_unserved(source, by);
}

bool shim_source_take(shim_source *source, zval *instance)
{
    if (source->in_use == source->max) {
        if (!wait_for_place(source)) {
            return false;
        }
    } else {
        source->in_use++;
    }
    ZVAL_UNDEF(instance);
    if (source->idle_count > 0) {
        ZVAL_COPY_VALUE(instance, &source->idle[--source->idle_count]);
    }
    return true;
}

void shim_source_give_back(shim_source *source, zval *instance)
{
    if (!Z_ISUNDEF_P(instance)) {
        ZVAL_COPY_VALUE(&source->idle[source->idle_count++], instance);
    }
    shim_source_waiter *next = source->first;
    if (next == NULL) {
        source->in_use--;
        return;
    }
    leave(source, next);
    next->is_served = true;
    shim_host.completion.complete(next->completer);
}
