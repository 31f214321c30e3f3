/* Requests on fibers of PHP's own.
 *
 * A request is a Fiber to everybody: Fiber::getCurrent() tells requests apart, and fibers that a script makes are
 * started from it. It is only resumed from here, never by a script: while it waits it has a caller, so PHP refuses. A
 * fiber carries one request after the other, with its stacks.
 *
 * A request may wait inside a fiber of its own making: what is resumed then is that fiber, the innermost one. */
#include "internal.h"

/* Carriers without a request, in the order in which they were put back. */
static __thread shim_fiber *idle;
static __thread unsigned idle_count;
/* More than that end with their request. */
enum { IDLE_MAX = 64 };

__thread shim_fiber *shim_running;

static zend_fiber_transfer switch_to(zend_fiber_context *context, zval *exception)
{
    zend_fiber_transfer transfer = {.context = context};
    if (exception != NULL) {
        ZVAL_COPY(&transfer.value, exception);
        transfer.flags = ZEND_FIBER_TRANSFER_FLAG_ERROR;
    } else {
        ZVAL_NULL(&transfer.value);
    }
    zend_fiber_switch_context(&transfer);
    return transfer;
}

/* PHP matches expressions of fewer groups in one block of the thread, and forgets who has that block when a replacement
 * by an expression of more groups ends. While a callback of such a one runs, no other request may match anything. */
enum { SMALL_EXPRESSION_GROUPS = 31 };

static bool is_large_expression(const zend_string *expression)
{
    size_t groups = 0;
    for (size_t i = 0; i < ZSTR_LEN(expression); i++) {
        groups += ZSTR_VAL(expression)[i] == '(';
    }
    return groups > SMALL_EXPRESSION_GROUPS;
}

/* The first argument of a function of pcre: an expression, a list of them, or a table from them to callbacks. */
static bool has_large_expression(zval *argument)
{
    ZVAL_DEREF(argument);
    if (Z_TYPE_P(argument) == IS_STRING) {
        return is_large_expression(Z_STR_P(argument));
    }
    if (Z_TYPE_P(argument) != IS_ARRAY) {
        return false;
    }
    zend_string *key;
    zval *value;
    ZEND_HASH_FOREACH_STR_KEY_VAL(Z_ARRVAL_P(argument), key, value) {
        ZVAL_DEREF(value);
        if ((key != NULL && is_large_expression(key)) || (Z_TYPE_P(value) == IS_STRING && is_large_expression(Z_STR_P(value)))) {
            return true;
        }
    } ZEND_HASH_FOREACH_END();
    return false;
}

static bool is_in_large_expression(void)
{
    for (zend_execute_data *frame = EG(current_execute_data); frame != NULL; frame = frame->prev_execute_data) {
        const zend_function *function = frame->func;
        if (function == NULL || function->type != ZEND_INTERNAL_FUNCTION || function->internal_function.module == NULL ||
            strcmp(function->internal_function.module->name, "pcre") != 0) {
            continue;
        }
        if (ZEND_CALL_NUM_ARGS(frame) > 0 && has_large_expression(ZEND_CALL_ARG(frame, 1))) {
            return true;
        }
    }
    return false;
}

bool shim_fiber_may_park(void)
{
    return shim_running != NULL && shim_running->php != NULL && shim_running->phase == SHIM_PHASE_RUNNING &&
           !zend_fiber_switch_blocked() && !shim_is_loading() && OG(running) == NULL && EG(active_fiber) != NULL &&
           (EG(active_fiber)->flags & ZEND_FIBER_FLAG_DESTROYED) == 0 && !is_in_large_expression();
}

bool shim_fiber_switch_out(shim_fiber *fiber)
{
    zend_fiber *php = fiber->php;
    php->previous = EG(current_fiber_context);
    EG(active_fiber)->execute_data = EG(current_execute_data);
    php->stack_bottom->prev_execute_data = NULL;
    zend_fiber_transfer transfer = switch_to(php->caller, NULL);
    if ((transfer.flags & ZEND_FIBER_TRANSFER_FLAG_ERROR) != 0) {
        zend_throw_exception_internal(Z_OBJ(transfer.value));
        return false;
    }
    zval_ptr_dtor(&transfer.value);
    return true;
}

/* What a fiber runs: requests, until it is not needed any more. */
void shim_fiber_body(void)
{
    shim_fiber *fiber = shim_running;
    for (;;) {
        shim_request_run(fiber);
        if (shim_own_worker.tainted || idle_count >= IDLE_MAX) {
            return;
        }
        if (!shim_fiber_switch_out(fiber)) {
            return;
        }
    }
}

static shim_fiber *make(void)
{
    shim_fiber *fiber = calloc(1, sizeof(*fiber));
    if (fiber == NULL) {
        return NULL;
    }
    zval object;
    if (object_init_ex(&object, zend_ce_fiber) != SUCCESS) {
        free(fiber);
        return NULL;
    }
    fiber->php = (zend_fiber *)Z_OBJ(object);
    fiber->php->fci.size = sizeof(fiber->php->fci);
    ZVAL_UNDEF(&fiber->php->fci.function_name);
    fiber->php->fci_cache.function_handler = shim_function_body;
    return fiber;
}

static void drop(shim_fiber *fiber)
{
    zend_fiber *php = fiber->php;
    fiber->php = NULL;
    shim_state_free(&fiber->state);
    free(fiber->strings.bytes);
    free(fiber);
    OBJ_RELEASE(&php->std);
}

/* A script has suspended its request's own fiber: nobody would resume it. */
static void refuse_suspension(shim_fiber *fiber)
{
    zval error;
    object_init_ex(&error, zend_ce_error);
    zend_update_property_string(zend_ce_error, Z_OBJ(error), "message", sizeof("message") - 1,
                                "The fiber of a request cannot be suspended: nothing would resume it");
    fiber->php->stack_bottom->prev_execute_data = EG(current_execute_data);
    fiber->php->caller = EG(current_fiber_context);
    EG(active_fiber) = fiber->php;
    (void)switch_to(fiber->php->previous, &error);
    EG(active_fiber) = NULL;
    zval_ptr_dtor(&error);
}

/* Lets the fiber run until it waits or its request has ended. */
static void run(shim_fiber *fiber)
{
    shim_context *before = shim_current;
    zend_execute_data *frame = EG(current_execute_data);
    shim_running = fiber;
    if (fiber->php->context.status == ZEND_FIBER_STATUS_INIT) {
        zend_try {
            zval result;
            ZVAL_UNDEF(&result);
            (void)SHIM_FIBER_START(fiber->php, &result);
            zval_ptr_dtor(&result);
        } zend_catch {
            /* It had no memory for its stack. */
            shim_own_worker.tainted = true;
            EG(current_execute_data) = frame;
            CG(unclean_shutdown) = 0;
        } zend_end_try();
    } else {
        fiber->php->stack_bottom->prev_execute_data = EG(current_execute_data);
        fiber->php->caller = EG(current_fiber_context);
        EG(active_fiber) = fiber->php;
        (void)switch_to(fiber->php->previous, NULL);
        EG(active_fiber) = NULL;
    }
    while (fiber->php->context.status == ZEND_FIBER_STATUS_SUSPENDED && fiber->phase == SHIM_PHASE_RUNNING) {
        refuse_suspension(fiber);
    }
    shim_running = NULL;
    shim_current = before;
}

/* After a run: keeps the fiber, or lets it go. */
static shim_progress settle(shim_fiber *fiber)
{
    if (fiber->php->context.status == ZEND_FIBER_STATUS_SUSPENDED) {
        if (fiber->phase != SHIM_PHASE_IDLE) {
            return SHIM_WAITS;
        }
        fiber->next = idle;
        idle = fiber;
        idle_count++;
        return SHIM_ENDED;
    }
    bool ended = fiber->context.host == NULL;
    if (EG(exception) != NULL) {
        zend_clear_exception();
    }
    drop(fiber);
    return ended ? SHIM_ENDED : SHIM_REFUSED;
}

shim_progress shim_request_start(const shim_request *request, void *host)
{
    shim_fiber *fiber = idle;
    if (fiber != NULL) {
        idle = fiber->next;
        idle_count--;
    } else {
        volatile bool failed = true;
        shim_fiber *volatile made = NULL;
        zend_try {
            made = make();
            failed = made == NULL;
        } zend_end_try();
        if (failed) {
            return SHIM_REFUSED;
        }
        fiber = made;
    }
    fiber->context = (shim_context){.host = host, .request = request, .time = request->time, .body_length = request->content_length};
    fiber->descriptor = -1;
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

/* The worker serves no more: fibers without a request are destroyed. */
void shim_fibers_forget(void)
{
    while (idle != NULL) {
        shim_fiber *fiber = idle;
        idle = fiber->next;
        drop(fiber);
    }
    idle_count = 0;
}

/* ---- fibers that nobody ends ---- */

static zend_object_free_obj_t php_free_fiber;

/* After a fatal error PHP runs no destructors, and it is the destructor of a fiber that frees its stack. What is on the
 * stack stays as it is, as all that the script held. */
static void free_fiber(zend_object *object)
{
    zend_fiber *fiber = (zend_fiber *)object;
    if (CG(unclean_shutdown) && fiber->context.status == ZEND_FIBER_STATUS_SUSPENDED) {
        fiber->context.cleanup = NULL;
        zend_fiber_destroy_context(&fiber->context);
        fiber->context.status = ZEND_FIBER_STATUS_DEAD;
    }
    php_free_fiber(object);
}

void shim_fibers_install(void)
{
    zend_object_handlers *handlers = (zend_object_handlers *)zend_ce_fiber->default_object_handlers;
    php_free_fiber = handlers->free_obj;
    handlers->free_obj = free_fiber;
}
