/* Requests whose wait is over, in the order in which the waits ended. */
#include "compat.h"
#include "worker/stack/fiber.h"
#include "worker/stack/ready.h"

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
