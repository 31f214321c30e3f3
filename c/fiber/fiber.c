/* A request's fiber, apart from its stack.
 *
 * To scripts, it is an object of PHP's class Fiber that is new for each request: what they have stored under it never
 * belongs to another request. To the host, it is a request, which is returned to the host when nothing of it is
 * left. */
#include "compat.h"
#include "context/host.h"
#include "fiber/fiber.h"

__thread shim_fiber *shim_running;

static void ignore(const shim_fiber *fiber)
{
    (void)fiber;
}

void (*shim_fiber_is_lost)(const shim_fiber *fiber) = ignore;

void shim_fiber_identify(shim_fiber *fiber)
{
    if (!fiber->is_carried) {
        return;
    }
    zval object;
    if (object_init_ex(&object, zend_ce_fiber) != SUCCESS) {
        return;
    }
    zend_fiber *php = (zend_fiber *)Z_OBJ(object);
    php->context.kind = zend_ce_fiber;
    php->context.status = ZEND_FIBER_STATUS_RUNNING;
    php->context.stack = fiber->carrier.stack;
    php->caller = fiber->loop;
    php->previous = &fiber->carrier;
    php->stack_bottom = fiber->bottom;
    php->execute_data = fiber->bottom;
    ZVAL_NULL(&php->result);
    fiber->php = php;
    EG(active_fiber) = php;
}

/* Scripts see it as terminated. */
static zend_fiber *take_away(shim_fiber *fiber)
{
    zend_fiber *php = fiber->php;
    fiber->php = NULL;
    EG(active_fiber) = NULL;
    if (php != NULL) {
        php->context.status = ZEND_FIBER_STATUS_DEAD;
        php->context.stack = NULL;
        php->caller = NULL;
        php->previous = NULL;
        php->stack_bottom = NULL;
        php->execute_data = NULL;
    }
    return php;
}

/* If destructors attach more to the new Fiber again and again, they eventually run without one. */
enum { RETIREMENTS_MAX = 8 };

void shim_fiber_retire(shim_fiber *fiber)
{
    for (int round = 0; fiber->php != NULL && round < RETIREMENTS_MAX; round++) {
        zend_fiber *php = take_away(fiber);
        if ((OBJ_FLAGS(&php->std) & IS_OBJ_WEAKLY_REFERENCED) != 0 && GC_REFCOUNT(&php->std) == 1) {
            /* The destructors of what a WeakMap holds for it run in a Fiber too. */
            shim_fiber_identify(fiber);
        }
        OBJ_RELEASE(&php->std);
    }
    zend_fiber *last = take_away(fiber);
    if (last != NULL) {
        OBJ_RELEASE(&last->std);
    }
}

void shim_fiber_let_go(shim_fiber *fiber)
{
    void *owner = fiber->context.owner;
    fiber->context.owner = NULL;
    if (owner != NULL) {
        shim_host.worker.freed(owner);
    }
}
