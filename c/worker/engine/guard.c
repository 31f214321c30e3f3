/* Bailouts in worker mode: where they end, and the state that is restored.
 *
 * Invariants. In worker mode, all code of scripts runs below shim_guard(). There is thus a single setjmp, in a frame
 * whose variables do not change, and a bailout never crosses a frame of the host. Engine state whose cleanup a bailout
 * skips is restored here: the frames, the VM stack, the active fiber, the scope, the error handling, the flags that
 * tell the engine that it is shutting down, and the protection of the cycle collector. The state of extensions is
 * restored by php/bailout/recover.c. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"
#include "worker/engine/engine.h"

shim_checkpoint shim_checkpoint_here(void)
{
    return (shim_checkpoint){
        .free_depth = shim_free_depth_here(),
        .mutexes = shim_mutexes_held(),
        .frame = EG(current_execute_data),
        .stack = EG(vm_stack),
        .top = EG(vm_stack_top),
        .end = EG(vm_stack_end),
        .page_size = EG(vm_stack_page_size),
        .scope = EG(fake_scope),
        .fiber = EG(active_fiber),
        .is_blocked = zend_fiber_switch_blocked(),
        .span = shim_current_span,
    };
}

/* ---- before a bailout ---- */

/* Called before the bailout by everything that ends a script this way, PHP or a debugger in its place: marks every
 * object of the thread as destructed. In a serving worker, these include the objects of the application and of other
 * requests, whose destructors must still run. */
void ZEND_FASTCALL zend_objects_store_mark_destructed(zend_objects_store *objects)
{
    if (shim_current == NULL || !shim_own_worker.serving) {
        NEXT(zend_objects_store_mark_destructed)(objects);
    }
}

/* ---- after a bailout ---- */

static void restore(const shim_checkpoint *place)
{
    shim_own_worker.tainted = true;
    if (shim_current != NULL) {
        shim_current->bailed_out = true;
    }
    if (ZEND_OBSERVER_ENABLED) {
        zend_observer_fcall_end_all();
    }
    while (EG(vm_stack) != place->stack && EG(vm_stack) != NULL) {
        zend_vm_stack page = EG(vm_stack);
        EG(vm_stack) = page->prev;
        efree(page);
    }
    EG(vm_stack) = place->stack;
    EG(vm_stack_top) = place->top;
    EG(vm_stack_end) = place->end;
    EG(vm_stack_page_size) = place->page_size;
    EG(current_execute_data) = place->frame;
    EG(active_fiber) = place->fiber;
    EG(fake_scope) = place->scope;
    shim_error_handling_reset();
    /* Not released: a destructor would run outside any request, and the request's memory is not freed anyway. */
    EG(exception) = NULL;
    EG(prev_exception) = NULL;
    EG(opline_before_exception) = NULL;
    CG(unclean_shutdown) = 0;
    shim_current_span = place->span;
    shim_mutexes_return_to(place->mutexes);
    shim_output_recover();
    shim_stacks_drop_without_output();
    shim_free_depth_return_to(place->free_depth);
    shim_loading_forget();
    while (!place->is_blocked && zend_fiber_switch_blocked()) {
        zend_fiber_switch_unblock();
    }
    shim_collector_unprotect();
    shim_memory_limit_after_bailout();
}

bool shim_guard(const shim_checkpoint *here, void (*step)(void *), void *argument)
{
    volatile bool ended = false;
    zend_try {
        step(argument);
        ended = true;
    } zend_end_try();
    /* The flag is also set if the session extension or the compiler caught the bailout on its way here. */
    if (ended && !CG(unclean_shutdown)) {
        return true;
    }
    restore(here);
    shim_overflow_report();
    return false;
}

/* ---- in the middle of a switch ---- */

bool shim_call_suppressed(void (*step)(void *), void *argument)
{
    const shim_checkpoint here = shim_checkpoint_here();
    const bool was_in_switch = shim_in_switch;
    /* Throwing changes the current frame: use this one instead of the script's, which is not involved. */
    zend_execute_data frame;
    zend_object *const exception = EG(exception);
    zend_object *const earlier = EG(prev_exception);
    const zend_op *const opline = EG(opline_before_exception);
    zval handler;
    ZVAL_COPY_VALUE(&handler, &EG(user_error_handler));
    ZVAL_UNDEF(&EG(user_error_handler));
    EG(exception) = NULL;
    EG(prev_exception) = NULL;
    shim_root_frame_enter(&frame);
    shim_in_switch = true;
    shim_memory_limit_lift();
    const bool ended = shim_guard(&here, step, argument);
    if (EG(exception) != NULL) {
        /* Thrown by the engine; no script holds a reference to it. */
        OBJ_RELEASE(EG(exception));
    }
    shim_in_switch = was_in_switch;
    EG(current_execute_data) = here.frame;
    EG(exception) = exception;
    EG(prev_exception) = earlier;
    EG(opline_before_exception) = opline;
    ZVAL_COPY_VALUE(&EG(user_error_handler), &handler);
    shim_memory_limit_apply();
    return ended;
}
