/* A request's fiber, apart from its stack. The host sees it as a request, which is returned when nothing of it is left. */
#include "compat.h"
#include "php/context/host.h"
#include "worker/stack/fiber.h"

__thread shim_fiber *shim_running;

uint64_t shim_running_serial(void)
{
    return shim_running != NULL ? shim_running->context.serial : 0;
}

static void ignore(const shim_fiber *fiber)
{
    (void)fiber;
}

void (*shim_fiber_parks)(const shim_fiber *fiber) = ignore;
void (*shim_fiber_is_lost)(const shim_fiber *fiber) = ignore;

void shim_fiber_let_go(shim_fiber *fiber)
{
    void *owner = fiber->context.owner;
    fiber->context.owner = NULL;
    if (owner != NULL) {
        shim_host.worker.freed(owner);
    }
}
