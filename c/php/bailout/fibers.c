/* Fibers that are suspended when their script has bailed out.
 *
 * After a bailout, PHP calls no destructors, but it is the destructor of a fiber that unwinds its stack. The stack would
 * stay mapped, and a library that has called the fiber back would never return: SQLite would keep its mutexes locked, and
 * libcurl its handle in use. These fibers therefore bail out, too, when they are freed, and all that remain do so before
 * the objects of their connections are freed. Unlike the destructor, this runs no `finally` block. The values on the stack
 * are not released, like everything else that the script held.
 *
 * The cycle collector frees no fiber from then on. */
#include "compat.h"
#include "php/bailout/bailout.h"

#include <zend_fibers.h>

static zend_object_free_obj_t php_free_fiber;

static bool is_suspended(const zend_fiber *fiber)
{
    return fiber->context.status == ZEND_FIBER_STATUS_SUSPENDED && fiber->caller == NULL;
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

static void free_fiber(zend_object *object)
{
    if (CG(unclean_shutdown) && is_suspended((zend_fiber *)object)) {
        bail_out((zend_fiber *)object);
    }
    php_free_fiber(object);
}

void shim_suspended_fibers_bail_out(const zend_objects_store *objects)
{
    for (uint32_t i = 1; CG(unclean_shutdown) && i < objects->top; i++) {
        zend_object *object = objects->object_buckets[i];
        if (IS_OBJ_VALID(object) && object->ce == zend_ce_fiber && is_suspended((zend_fiber *)object)) {
            bail_out((zend_fiber *)object);
        }
    }
}

/* ---- the cycle collector ---- */

/* After a bailout, all objects are marked as destructed, and a collection would free suspended fibers without unwinding
 * them. A fiber reports the variables of the generators that it runs (zend_fiber_object_gc()), so they would be freed with
 * it, although a generator that is referenced elsewhere still uses them. PHP protects its collector after a bailout, but
 * gc_collect_cycles() ignores that. */

static int (*php_collect)(void);

static int collect(void)
{
    return CG(unclean_shutdown) ? 0 : php_collect();
}

void shim_suspended_fibers_install(void)
{
    php_collect = gc_collect_cycles;
    gc_collect_cycles = collect;
    zend_object_handlers *handlers = (zend_object_handlers *)zend_ce_fiber->default_object_handlers;
    php_free_fiber = handlers->free_obj;
    handlers->free_obj = free_fiber;
}
