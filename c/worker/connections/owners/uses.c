/* Uses; see owners.h for their invariants. */
#include "compat.h"
#include "worker/connections/owners/owners.h"

#include <stdlib.h>
#include <sys/queue.h>

struct shim_use {
    shim_owned *resource;
    /* The stack, and the position on it. */
    zend_fiber_context *stack;
    const char *position;
    /* The next outer use on the same stack. */
    struct shim_use *outer;
    LIST_ENTRY(shim_use) link;
};

/* The slot for the innermost use in the contexts of stacks. */
static int handle = -1;

int shim_uses_handle(void)
{
    return handle;
}

/* The uses of the thread. */
static __thread LIST_HEAD(, shim_use) all;

void (*shim_use_is_over)(shim_owned *used_resource);

static shim_use *innermost_of(const zend_fiber_context *stack)
{
    return stack->reserved[handle];
}

/* Removes the innermost use from its stack, and ends it. */
static void take_off(zend_fiber_context *stack, bool was_skipped)
{
    shim_use *use = innermost_of(stack);
    shim_owned *resource = use->resource;
    stack->reserved[handle] = use->outer;
    LIST_REMOVE(use, link);
    free(use);
    if (resource != NULL) {
        resource->uses--;
        resource->is_broken = resource->is_broken || was_skipped;
        shim_use_is_over(resource);
    }
}

/* Ends the uses below `position`, which bailouts have skipped: stacks grow downwards, so no call in progress is below the
 * running function. */
static void recover(zend_fiber_context *stack, const char *position)
{
    while (innermost_of(stack) != NULL && innermost_of(stack)->position < position) {
        take_off(stack, true);
    }
}

zend_never_inline shim_use *shim_use_begin(shim_owned *resource)
{
    zend_fiber_context *stack = EG(current_fiber_context);
    const char *position = __builtin_frame_address(0);
    recover(stack, position);
    shim_use *use = malloc(sizeof(*use));
    if (use == NULL) {
        return NULL;
    }
    *use = (shim_use){
        .resource = resource,
        .stack = stack,
        .position = position,
        .outer = innermost_of(stack),
    };
    LIST_INSERT_HEAD(&all, use, link);
    stack->reserved[handle] = use;
    if (resource != NULL) {
        resource->uses++;
    }
    return use;
}

void shim_use_end(shim_use *use)
{
    zend_fiber_context *stack = EG(current_fiber_context);
    bool is_last = false;
    while (!is_last && innermost_of(stack) != NULL) {
        is_last = innermost_of(stack) == use;
        take_off(stack, !is_last);
    }
}

shim_owned *shim_use_here(void)
{
    const shim_use *use = handle >= 0 && EG(current_fiber_context) != NULL ? innermost_of(EG(current_fiber_context)) : NULL;
    return use != NULL ? use->resource : NULL;
}

zend_never_inline void shim_uses_recover(void)
{
    recover(EG(current_fiber_context), __builtin_frame_address(0));
}

void shim_uses_forget(void)
{
    while (!LIST_EMPTY(&all)) {
        shim_use *use = LIST_FIRST(&all);
        shim_owned *resource = use->resource;
        LIST_REMOVE(use, link);
        free(use);
        if (resource != NULL) {
            resource->uses--;
            shim_use_is_over(resource);
        }
    }
}

/* Ends the uses of a stack that is being freed: its calls will not return. */
static void end_stack(zend_fiber_context *stack)
{
    while (innermost_of(stack) != NULL) {
        take_off(stack, true);
    }
}

bool shim_uses_install(void)
{
    handle = zend_get_resource_handle("svc connections");
    if (handle >= 0) {
        zend_observer_fiber_destroy_register(end_stack);
    }
    return handle >= 0;
}
