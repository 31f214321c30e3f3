/* Requests on their own stacks.
 *
 * The shim owns the stack and reuses it from request to request; it is not a PHP object. To scripts, code on it is {main}:
 * Fiber::getCurrent() is null, Fiber::suspend() throws, and fibers that they create are started from it. Event loops
 * written in PHP rely on that: where a fiber is current, they suspend it and expect a loop below to resume it; where there
 * is none, they run the loop (Revolt's DriverSuspension::suspend()).
 *
 * Invariants. Only the loop switches to a request stack, or to the script's own fiber in which the stack's request waits;
 * that fiber has a caller, so PHP does not let scripts resume it. A request stack returns to the loop when its request waits,
 * when nothing of the request is left, or when the stack ends. In each case, the end of the request has been reported
 * to the host if and only if it has ended, and the request is back with the host if and only if nothing of it is left.
 * If the loop is lost, unfinished requests are returned to the host. */
#include "compat.h"
#include "php/context/context.h"
#include "shim.h"
#include "worker/engine/engine.h"
#include "worker/stack/stack.h"
#include "worker/state/state.h"

/* Request stacks without a request; the most recently returned one is reused first. */
static __thread shim_fiber *idle;
static __thread unsigned idle_count;
/* Beyond this number, request stacks end with their request. */
enum { IDLE_MAX = 64 };

/* Request stacks with a request, from its beginning to its end. */
static __thread LIST_HEAD(, shim_fiber) busy;

/* A request has the same stack for the calls of scripts as in a php-fpm process (zend.max_allowed_stack_size), and the
 * same again for calls of the engine below, which are not checked. Memory is committed as it is used. */
enum { STACK_SIZE = 16 * 1024 * 1024 };

static void switch_to(zend_fiber_context *context)
{
    zend_fiber_transfer transfer = {.context = context};
    ZVAL_NULL(&transfer.value);
    zend_fiber_switch_context(&transfer);
    zval_ptr_dtor(&transfer.value);
}

shim_obstacle shim_fiber_obstacle(void)
{
    if (shim_is_child || shim_running == NULL || !shim_running->may_wait || shim_running->phase != SHIM_PHASE_RUNNING ||
        (EG(active_fiber) != NULL && (EG(active_fiber)->flags & ZEND_FIBER_FLAG_DESTROYED) != 0)) {
        return SHIM_OBSTACLE_SWITCH;
    }
    return shim_is_loading()                              ? SHIM_OBSTACLE_LOADING
           : shim_is_collecting()                         ? SHIM_OBSTACLE_COLLECTING
           : OG(running) != NULL                          ? SHIM_OBSTACLE_OUTPUT
           : zend_fiber_switch_blocked()                  ? SHIM_OBSTACLE_SWITCH
           : shim_values_are_marked(shim_running->root_frame) ? SHIM_OBSTACLE_MARKS
                                                          : SHIM_NO_OBSTACLE;
}

bool shim_fiber_may_park(void)
{
    return shim_fiber_obstacle() == SHIM_NO_OBSTACLE;
}

void shim_fiber_switch_out(shim_fiber *fiber)
{
    fiber->innermost = EG(current_fiber_context);
    if (EG(active_fiber) != NULL) {
        EG(active_fiber)->execute_data = EG(current_execute_data);
    }
    fiber->root_frame->prev_execute_data = NULL;
    switch_to(fiber->loop);
}

static void free_vm_stack(zend_fiber_context *context)
{
    shim_fiber *fiber = (shim_fiber *)((char *)context - XtOffsetOf(shim_fiber, own_context));
    zend_vm_stack current = EG(vm_stack);
    EG(vm_stack) = fiber->vm_stack;
    zend_vm_stack_destroy();
    EG(vm_stack) = current;
}

static void enter_stack(shim_fiber *fiber)
{
    zend_vm_stack page = fiber->vm_stack;
    EG(vm_stack) = page;
    EG(vm_stack_top) = page->top + ZEND_CALL_FRAME_SLOT;
    EG(vm_stack_end) = page->end;
    EG(vm_stack_page_size) = ZEND_FIBER_VM_STACK_SIZE;
    fiber->root_frame = (zend_execute_data *)page->top;
    shim_root_frame_enter(fiber->root_frame);
    EG(jit_trace_num) = 0;
#ifdef ZEND_CHECK_STACK_LIMIT
    char *base = zend_fiber_stack_base(fiber->own_context.stack);
    char *limit = zend_fiber_stack_limit(fiber->own_context.stack);
    if (EG(max_allowed_stack_size) > 0 && EG(max_allowed_stack_size) < base - limit) {
        limit = base - EG(max_allowed_stack_size) + EG(reserved_stack_size);
    }
    EG(stack_base) = base;
    EG(stack_limit) = EG(max_allowed_stack_size) == ZEND_MAX_ALLOWED_STACK_SIZE_UNCHECKED ? NULL : limit;
#endif
}

/* The main function of a request stack: runs requests until the stack is no longer needed. */
static ZEND_STACK_ALIGNED void carry(zend_fiber_transfer *transfer)
{
    shim_fiber *fiber = shim_running;
    enter_stack(fiber);
    /* Each step of a request catches its own bailouts; one that occurs between two steps must not leave this stack. */
    zend_first_try {
        for (;;) {
            fiber->serve(fiber);
            if (shim_own_worker.tainted || idle_count >= IDLE_MAX) {
                break;
            }
            shim_fiber_switch_out(fiber);
        }
    } zend_catch {
        shim_own_worker.tainted = true;
        CG(unclean_shutdown) = 0;
    } zend_end_try();
    fiber->vm_stack = EG(vm_stack);
    fiber->own_context.cleanup = free_vm_stack;
    transfer->context = fiber->loop;
    transfer->flags = 0;
    ZVAL_NULL(&transfer->value);
}

/* Allocates the stacks. May run out of memory; memory that has been allocated by then is freed at the end of the worker. */
static void build(void *argument)
{
    shim_fiber *fiber = argument;
    fiber->vm_stack = zend_vm_stack_new_page(ZEND_FIBER_VM_STACK_SIZE, NULL);
    fiber->has_own_stack = zend_fiber_init_context(&fiber->own_context, &idle, carry, STACK_SIZE) == SUCCESS;
}

static shim_fiber *make(void)
{
    shim_fiber *fiber = calloc(1, sizeof(*fiber));
    if (fiber == NULL) {
        return NULL;
    }
    if (!shim_call_suppressed(build, fiber) || !fiber->has_own_stack) {
        free(fiber);
        return NULL;
    }
    fiber->innermost = &fiber->own_context;
    return fiber;
}

static void free_fiber_struct(shim_fiber *fiber)
{
    shim_state_free(&fiber->state);
    shim_guards_free(&fiber->guards);
    free(fiber->strings.bytes);
    free(fiber);
}

/* Lets the fiber run until it waits or its request has ended. */
static void run(shim_fiber *fiber)
{
    shim_context *before = shim_current;
    shim_running = fiber;
    fiber->loop = EG(current_fiber_context);
    if (fiber->root_frame != NULL) {
        fiber->root_frame->prev_execute_data = EG(current_execute_data);
    }
    switch_to(fiber->innermost);
    shim_running = NULL;
    shim_current = before;
}

/* Gives up the host's request, which will not continue, and reports that to the host unless its end was already reported. */
static void give_up(shim_fiber *fiber)
{
    void *host = fiber->context.host;
    fiber->context.host = NULL;
    shim_fiber_is_lost(fiber);
    if (host != NULL) {
        shim_host.worker.ended(host, SHIM_LOST);
    }
    shim_fiber_release(fiber);
}

/* After a run: keeps the fiber or frees it. */
static shim_progress settle(shim_fiber *fiber)
{
    const bool is_dead = fiber->own_context.status == ZEND_FIBER_STATUS_DEAD;
    if (!is_dead && (fiber->phase == SHIM_PHASE_PARKED || fiber->phase == SHIM_PHASE_READY)) {
        return SHIM_WAITS;
    }
    LIST_REMOVE(fiber, busy);
    if (!is_dead && fiber->phase == SHIM_PHASE_IDLE) {
        fiber->innermost = &fiber->own_context;
        fiber->next = idle;
        idle = fiber;
        idle_count++;
        return SHIM_ENDED;
    }
    give_up(fiber);
    if (is_dead) {
        free_fiber_struct(fiber);
    } else {
        /* An extension has switched to the loop: the content of that stack is unknown. */
        shim_own_worker.tainted = true;
    }
    return SHIM_ENDED;
}

shim_progress shim_fiber_start(shim_context context, void (*serve)(shim_fiber *))
{
    shim_fiber *fiber = idle;
    if (fiber != NULL) {
        idle = fiber->next;
        idle_count--;
    } else {
        fiber = make();
    }
    if (fiber == NULL) {
        shim_host.worker.ended(context.host, SHIM_FATAL);
        shim_host.worker.freed(context.host);
        return SHIM_ENDED;
    }
    fiber->context = context;
    fiber->has_used_connection = fiber->has_used_store = fiber->is_at_store = fiber->has_selected = false;
    fiber->lends_nothing = false;
    fiber->blocked = NULL;
    fiber->serve = serve;
    LIST_INSERT_HEAD(&busy, fiber, busy);
    run(fiber);
    return settle(fiber);
}

shim_progress shim_fiber_resume(void)
{
    shim_fiber *fiber = shim_ready_pop();
    if (fiber == NULL) {
        return SHIM_NOTHING;
    }
    run(fiber);
    return settle(fiber);
}

void shim_fibers_lose(void (*lose)(shim_fiber *fiber))
{
    if (!LIST_EMPTY(&busy)) {
        shim_own_worker.tainted = true;
    }
    /* Return all requests to the host first: one may own another's task. */
    shim_fiber *fiber;
    LIST_FOREACH(fiber, &busy, busy) {
        if (fiber->phase == SHIM_PHASE_PARKED) {
            fiber->stop_waiting(fiber);
        }
        fiber->context.host = NULL;
        shim_fiber_release(fiber);
    }
    /* Their stacks stay allocated: they may still be referenced. */
    LIST_FOREACH(fiber, &busy, busy) {
        lose(fiber);
    }
    LIST_INIT(&busy);
}

void shim_fibers_forget(void)
{
    while (idle != NULL) {
        shim_fiber *fiber = idle;
        idle = fiber->next;
        fiber->own_context.cleanup = free_vm_stack;
        zend_fiber_destroy_context(&fiber->own_context);
        free_fiber_struct(fiber);
    }
    idle_count = 0;
}
