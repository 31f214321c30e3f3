/* The current span of each fiber.
 *
 * A fiber that a script creates begins in the span in which it is started, and the spans that it enters afterwards are
 * its own. A request begins without a span. */
#include "compat.h"
#include "php/context/current_span.h"
#include "trace/span_fibers.h"

/* The slot in which the contexts of suspended fibers keep their span. */
static int place = -1;

int shim_trace_place(void)
{
    return place;
}

static void change_fiber(zend_fiber_context *from, zend_fiber_context *to)
{
    from->reserved[place] = (void *)(uintptr_t)shim_current_span;
    if (to->status != ZEND_FIBER_STATUS_INIT || to->kind != zend_ce_fiber) {
        shim_current_span = (uintptr_t)to->reserved[place];
    }
}

bool shim_span_fibers_follow(void)
{
    place = zend_get_resource_handle("svc traces");
    if (place < 0) {
        return false;
    }
    zend_observer_fiber_switch_register(change_fiber);
    return true;
}
