/* Cancelled tasks, on the thread that runs them.
 *
 * The host knows which tasks are cancelled; here, each task finds out for itself. A task that executes instructions is
 * interrupted (async/task/running.c), a parked one is woken, and one inside a call finds out when it parks or executes
 * instructions again. */
#include "compat.h"
#include "php/context/context.h"
#include "shim.h"
#include "worker/stack/stack.h"

/* The parked tasks of this thread. */
static __thread LIST_HEAD(, shim_fiber) parked;

void shim_cancel_watch(shim_fiber *fiber)
{
    LIST_INSERT_HEAD(&parked, fiber, parked);
}

void shim_cancel_unwatch(shim_fiber *fiber)
{
    LIST_REMOVE(fiber, parked);
}

size_t shim_tasks_wake_cancelled(void)
{
    size_t count = 0;
    shim_fiber *fiber;
    LIST_FOREACH(fiber, &parked, parked) {
        if (fiber->phase == SHIM_PHASE_PARKED && !fiber->context.is_cancelled && shim_cancel_notice(&fiber->context)) {
            shim_wake(fiber, SHIM_WOKEN_BY_CANCEL, 0);
            count++;
        }
    }
    return count;
}
