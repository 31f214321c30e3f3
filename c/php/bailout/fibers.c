/* Fibers that are suspended when their script has bailed out.
 *
 * After a bailout, PHP calls no destructors, but it is the destructor of a fiber that unwinds its stack. The stack would
 * stay mapped, and a library whose callback the fiber is suspended in would stay in the middle of its function: SQLite with
 * its mutexes locked, libcurl with the handle in use. Each of these fibers therefore bails out, too. Unlike the destructor,
 * this runs no `finally` block. */
#include "compat.h"
#include "php/bailout/bailout.h"

#include <zend_fibers.h>

static zend_fiber *suspended_fiber(zend_object *object)
{
    if (!IS_OBJ_VALID(object) || object->ce != zend_ce_fiber) {
        return NULL;
    }
    zend_fiber *fiber = (zend_fiber *)object;
    return fiber->context.status == ZEND_FIBER_STATUS_SUSPENDED && fiber->caller == NULL ? fiber : NULL;
}

/* Resumes the fiber as the end of a fiber that has bailed out resumes its caller. */
static void bail_out(zend_fiber *fiber)
{
    zend_fiber *const active = EG(active_fiber);
    zend_fiber_transfer transfer = {.context = fiber->previous, .flags = ZEND_FIBER_TRANSFER_FLAG_BAILOUT};
    ZVAL_NULL(&transfer.value);
    fiber->caller = EG(current_fiber_context);
    EG(active_fiber) = fiber;
    zend_fiber_switch_context(&transfer);
    EG(active_fiber) = active;
}

void shim_fibers_bail_out(const zend_objects_store *objects)
{
    for (uint32_t i = 1; CG(unclean_shutdown) && i < objects->top; i++) {
        zend_fiber *fiber = suspended_fiber(objects->object_buckets[i]);
        if (fiber != NULL) {
            bail_out(fiber);
        }
    }
}
