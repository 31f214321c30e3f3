/* Calls that wait, and which of them may suspend their request.
 *
 * The executable defines libc's waiting functions before libc does, so every wait of libphp, its extensions and their
 * libraries arrives here. In a request with a fiber, they wait like Svc\sleep(), and the thread runs other requests
 * meanwhile. Everywhere else libc handles them: the first check is whether such a request runs on this thread.
 *
 * Invariants. A hook neither jumps nor throws: its caller is C code that holds resources which a jump would leak. The
 * caller sees the usual results, timeouts and errno. A call that cannot suspend its request blocks its thread and is
 * counted. */
#include "compat.h"
#include "php/context/context.h"
#include "worker/hooks/hooks.h"
#include "worker/stack/stack.h"

static uint32_t in_effect;

void shim_hooks_install(uint32_t hooks)
{
    in_effect = hooks;
    shim_callers_scan();
}

bool shim_hook_is_on(shim_hook hook)
{
    const shim_fiber *fiber = shim_running;
    return fiber != NULL && (in_effect >> hook & 1) != 0 && fiber->has_own_stack && !shim_is_child;
}

bool shim_hook_is_in_effect_for(shim_hook hook, const void *caller)
{
    return (in_effect >> hook & 1) != 0 && shim_caller_is_known(caller);
}

void shim_hook_blocks(shim_hook hook, shim_obstacle obstacle)
{
    if (shim_current != NULL && shim_current->owner != NULL) {
        shim_host.worker.blocks(shim_current->owner, hook, obstacle);
    }
}
