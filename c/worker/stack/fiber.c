/* A request's fiber, apart from its stack. The host sees it as a request, and has it back once it is completely freed. */
#include "compat.h"
#include "php/context/context.h"
#include "worker/stack/stack.h"

__thread shim_fiber *shim_running;

uint64_t shim_running_serial(void)
{
    return shim_running != NULL ? shim_running->context.serial : 0;
}

void (*shim_fiber_parks)(const shim_fiber *fiber);
void (*shim_fiber_is_lost)(const shim_fiber *fiber);

void shim_fiber_release(shim_fiber *fiber)
{
    void *owner = fiber->context.owner;
    fiber->context.owner = NULL;
    if (owner != NULL) {
        shim_host.worker.freed(owner);
    }
}

/* ---- requests whose wait is over, in the order in which the waits ended ---- */

static __thread struct {
    shim_fiber *first;
    shim_fiber *last;
    size_t count;
} ready;

void shim_wake(shim_fiber *fiber, shim_woken_by by, unsigned member)
{
    fiber->stop_waiting(fiber);
    fiber->woken = (shim_woken){.by = by, .member = member};
    fiber->phase = SHIM_PHASE_READY;
    fiber->next = NULL;
    if (ready.last != NULL) {
        ready.last->next = fiber;
    } else {
        ready.first = fiber;
    }
    ready.last = fiber;
    ready.count++;
}

shim_fiber *shim_ready_pop(void)
{
    shim_fiber *fiber = ready.first;
    if (fiber != NULL) {
        ready.first = fiber->next;
        if (ready.first == NULL) {
            ready.last = NULL;
        }
        ready.count--;
    }
    return fiber;
}

size_t shim_ready_count(void)
{
    return ready.count;
}
