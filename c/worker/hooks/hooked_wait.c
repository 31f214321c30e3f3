/* Waits of hooked calls. */
#include "compat.h"
#include "php/context/context.h"
#include "php/files/locks.h"
#include "php/libc/clock.h"
#include "worker/hooks/hooked_wait.h"
#include "worker/hooks/hooks.h"
#include "worker/stack/cancel.h"
#include "worker/stack/carrier.h"
#include "worker/stack/fiber.h"
#include "worker/stack/park.h"

#include <errno.h>

/* The number of refused waits in a row after which a library counts as deaf, and after which as hopeless. */
enum { PATIENCE = 8, LAST_PATIENCE = 2 * PATIENCE };

/* Refuses the wait. A cancelled task gets its exception as soon as the call has returned. */
static shim_waited give_up(void)
{
    shim_running->refusals++;
    if (shim_is_cancelled()) {
        shim_current->owes_cancelled = true;
        zend_atomic_bool_store_ex(&EG(vm_interrupt), true);
    }
    return SHIM_WAITED_OVER;
}

static shim_waited block(shim_hook hook, shim_obstacle obstacle)
{
    shim_hook_blocks(hook, obstacle);
    return SHIM_WAITED_BLOCK;
}

shim_waited shim_hooked_may_wait(shim_hook hook)
{
    if (shim_is_over()) {
        return give_up();
    }
    shim_running->refusals = 0;
    const shim_obstacle obstacle = shim_fiber_obstacle();
    return obstacle != SHIM_NO_OBSTACLE ? block(hook, obstacle) : SHIM_WAITED_LOOK;
}

static shim_waited wait_in_fiber(shim_hook hook, const shim_wait_set *set)
{
    const shim_waited refused = shim_hooked_may_wait(hook);
    if (refused != SHIM_WAITED_LOOK) {
        return refused;
    }
    switch (shim_park(set).by) {
    case SHIM_NEVER_PARKED:
        return block(hook, SHIM_OBSTACLE_MEMORY);
    case SHIM_WOKEN_BY_DESCRIPTOR:
    case SHIM_WOKEN_BY_COMPLETION:
    case SHIM_WOKEN_BY_TURN:
        return SHIM_WAITED_LOOK;
    case SHIM_WOKEN_BY_CLOSE:
        return SHIM_WAITED_CLOSED;
    case SHIM_WOKEN_BY_CANCEL:
        return give_up();
    case SHIM_WOKEN_BY_TIME:
        break;
    }
    /* The time was either the call's deadline or the request's time limit. */
    return set->deadline != 0 && shim_now() >= set->deadline ? SHIM_WAITED_EXPIRED : give_up();
}

shim_waited shim_hooked_wait(shim_hook hook, const shim_wait_set *set)
{
    const int error = errno;
    const shim_waited waited = wait_in_fiber(hook, set);
    errno = error;
    return waited;
}

shim_waited shim_hooked_wait_for(shim_hook hook, int descriptor, short events, int64_t deadline)
{
    shim_watch watch = {.descriptor = descriptor, .events = events, .is_in_use = true};
    return shim_hooked_wait(hook, &(shim_wait_set){.watches = &watch, .watch_count = 1, .deadline = deadline});
}

shim_waited shim_hooked_pause(shim_hook hook, int64_t *pause)
{
    shim_pause_lengthen(pause);
    const shim_waited waited = shim_hooked_wait(hook, &(shim_wait_set){.deadline = shim_now() + *pause});
    return waited == SHIM_WAITED_EXPIRED ? SHIM_WAITED_LOOK : waited;
}

bool shim_hooked_is_deaf(void)
{
    return shim_running->refusals > PATIENCE;
}

bool shim_hooked_is_hopeless(void)
{
    return shim_running->refusals > LAST_PATIENCE;
}

bool shim_hooked_may_find(void)
{
    shim_fiber *fiber = shim_running;
    if (fiber->refusals > 0) {
        fiber->refusals = shim_is_over() ? fiber->refusals + 1 : 0;
    }
    return !shim_hooked_is_hopeless();
}
