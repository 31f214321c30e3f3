/* The engine's own members: error handling, and the error handlers of a request.
 *
 * A request begins with the handlers that the boot script has installed, on its own stacks. */
#include "compat.h"
#include "worker/state/state.h"

#include <zend_gc.h>

static __thread shim_executor_state baseline;

static void read_members(shim_executor_state *state)
{
    *state = (shim_executor_state){
        .error_reporting = EG(error_reporting),
        .exit_status = EG(exit_status),
        .ticks_count = EG(ticks_count),
        .user_error_handler_error_reporting = EG(user_error_handler_error_reporting),
        .user_error_handler = EG(user_error_handler),
        .user_exception_handler = EG(user_exception_handler),
        .user_error_handlers_error_reporting = EG(user_error_handlers_error_reporting),
        .user_error_handlers = EG(user_error_handlers),
        .user_exception_handlers = EG(user_exception_handlers),
        .exception_class = EG(exception_class),
        .error_handling = EG(error_handling),
        .variable_width_locale = CG(variable_width_locale),
        .ascii_compatible_locale = CG(ascii_compatible_locale),
        .in_autoload = EG(in_autoload),
        .exception = EG(exception),
        .prev_exception = EG(prev_exception),
        .opline_before_exception = EG(opline_before_exception),
        .fake_scope = EG(fake_scope),
        .filename_override = EG(filename_override),
        .lineno_override = EG(lineno_override),
        .unclean_shutdown = CG(unclean_shutdown),
    };
    SHIM_READ_BACKTRACE(&state->fatal_backtrace);
}

static void write_members(const shim_executor_state *state)
{
    EG(error_reporting) = state->error_reporting;
    EG(exit_status) = state->exit_status;
    EG(ticks_count) = state->ticks_count;
    EG(user_error_handler_error_reporting) = state->user_error_handler_error_reporting;
    ZVAL_COPY_VALUE(&EG(user_error_handler), &state->user_error_handler);
    ZVAL_COPY_VALUE(&EG(user_exception_handler), &state->user_exception_handler);
    EG(user_error_handlers_error_reporting) = state->user_error_handlers_error_reporting;
    EG(user_error_handlers) = state->user_error_handlers;
    EG(user_exception_handlers) = state->user_exception_handlers;
    EG(exception_class) = state->exception_class;
    EG(error_handling) = state->error_handling;
    CG(variable_width_locale) = state->variable_width_locale;
    CG(ascii_compatible_locale) = state->ascii_compatible_locale;
    EG(in_autoload) = state->in_autoload;
    EG(exception) = state->exception;
    EG(prev_exception) = state->prev_exception;
    EG(opline_before_exception) = state->opline_before_exception;
    EG(fake_scope) = state->fake_scope;
    EG(filename_override) = state->filename_override;
    EG(lineno_override) = state->lineno_override;
    CG(unclean_shutdown) = state->unclean_shutdown;
    SHIM_WRITE_BACKTRACE(&state->fatal_backtrace);
}

/* Returns a copy of the stack with its own memory. */
static zend_stack copy_of(const zend_stack *stack)
{
    zend_stack copy = *stack;
    if (stack->elements != NULL) {
        copy.elements = safe_emalloc((size_t)stack->max, (size_t)stack->size, 0);
        memcpy(copy.elements, stack->elements, (size_t)stack->top * (size_t)stack->size);
    }
    return copy;
}

static void put_handlers(zend_stack *stack, zend_stack copy)
{
    *stack = copy;
    for (int i = 0; i < copy.top; i++) {
        Z_TRY_ADDREF(((zval *)copy.elements)[i]);
    }
}

static void free_handlers(zend_stack *stack)
{
    while (!zend_stack_is_empty(stack)) {
        zval handler = *(zval *)zend_stack_top(stack);
        zend_stack_del_top(stack);
        zval_ptr_dtor(&handler);
    }
    zend_stack_destroy(stack);
}

/* Returns a table for the names of classes that are being loaded. A fiber that is suspended in an autoloader removes
 * its class from the current table when it is resumed, possibly in a later request, and zend_lookup_class_ex() requires
 * a table. */
static HashTable *new_table(void)
{
    HashTable *table;
    ALLOC_HASHTABLE(table);
    zend_hash_init(table, 8, NULL, NULL, 0);
    return table;
}

/* Gives the thread an empty table; PHP frees it at the end of the worker. */
static void capture_autoload(void)
{
    if (EG(in_autoload) == NULL) {
        EG(in_autoload) = new_table();
    } else {
        zend_hash_clean(EG(in_autoload));
    }
}

void shim_executor_capture(void)
{
    capture_autoload();
    read_members(&baseline);
    baseline.exit_status = 0;
    baseline.ticks_count = 0;
    baseline.exception_class = NULL;
    baseline.error_handling = EH_NORMAL;
    ZVAL_UNDEF(&baseline.fatal_backtrace);
    baseline.exception = NULL;
    baseline.prev_exception = NULL;
    baseline.opline_before_exception = NULL;
    baseline.fake_scope = NULL;
    baseline.filename_override = NULL;
    baseline.lineno_override = -1;
    baseline.unclean_shutdown = false;
}

void shim_executor_begin(void)
{
    HashTable *const in_autoload = new_table();
    const zend_stack levels = copy_of(&EG(user_error_handlers_error_reporting));
    const zend_stack error_handlers = copy_of(&EG(user_error_handlers));
    const zend_stack exception_handlers = copy_of(&EG(user_exception_handlers));
    /* Nothing bails out from here on. */
    EG(in_autoload) = in_autoload;
    Z_TRY_ADDREF(EG(user_error_handler));
    Z_TRY_ADDREF(EG(user_exception_handler));
    EG(user_error_handlers_error_reporting) = levels;
    put_handlers(&EG(user_error_handlers), error_handlers);
    put_handlers(&EG(user_exception_handlers), exception_handlers);
}

void shim_executor_suspend(shim_executor_state *state)
{
    read_members(state);
    write_members(&baseline);
}

void shim_executor_resume(const shim_executor_state *state)
{
    write_members(state);
}

static void forget_handlers(void)
{
    ZVAL_UNDEF(&EG(user_error_handler));
    ZVAL_UNDEF(&EG(user_exception_handler));
    zend_stack_init(&EG(user_error_handlers_error_reporting), sizeof(int));
    zend_stack_init(&EG(user_error_handlers), sizeof(zval));
    zend_stack_init(&EG(user_exception_handlers), sizeof(zval));
    zval none;
    ZVAL_UNDEF(&none);
    SHIM_WRITE_BACKTRACE(&none);
}

/* The number of frames that are kept of a fatal error's backtrace. */
enum { FRAMES = 1000 };

void shim_executor_shorten_backtrace(void)
{
    zval whole, innermost;
    SHIM_READ_BACKTRACE(&whole);
    if (Z_TYPE(whole) != IS_ARRAY || zend_hash_num_elements(Z_ARRVAL(whole)) <= FRAMES) {
        return;
    }
    array_init_size(&innermost, FRAMES);
    zval *frame;
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL(whole), frame) {
        if (zend_hash_num_elements(Z_ARRVAL(innermost)) == FRAMES) {
            break;
        }
        Z_TRY_ADDREF_P(frame);
        zend_hash_next_index_insert_new(Z_ARRVAL(innermost), frame);
    } ZEND_HASH_FOREACH_END();
    SHIM_WRITE_BACKTRACE(&innermost);
    /* The frames hold the values that the trace refers to; a collection would run destructors in the middle of the error. */
    const bool was_protected = gc_protect(true);
    zval_ptr_dtor(&whole);
    gc_protect(was_protected);
}

bool shim_executor_holds(void)
{
    zval backtrace;
    SHIM_READ_BACKTRACE(&backtrace);
    return Z_TYPE(EG(user_error_handler)) != IS_UNDEF || Z_TYPE(EG(user_exception_handler)) != IS_UNDEF ||
           EG(user_error_handlers).elements != NULL || EG(user_exception_handlers).elements != NULL ||
           Z_TYPE(backtrace) != IS_UNDEF;
}

void shim_executor_drop(void)
{
    shim_executor_state own;
    read_members(&own);
    /* Destructors may install handlers. */
    forget_handlers();
    zval_ptr_dtor(&own.user_error_handler);
    zval_ptr_dtor(&own.user_exception_handler);
    zval_ptr_dtor(&own.fatal_backtrace);
    zend_stack_destroy(&own.user_error_handlers_error_reporting);
    free_handlers(&own.user_error_handlers);
    free_handlers(&own.user_exception_handlers);
}

void shim_executor_end(void)
{
    HashTable *in_autoload = EG(in_autoload);
    EG(in_autoload) = NULL;
    /* A request that could not begin uses the baseline's table. */
    if (in_autoload != NULL && in_autoload != baseline.in_autoload) {
        zend_hash_destroy(in_autoload);
        FREE_HASHTABLE(in_autoload);
    }
}

void shim_executor_reset(void)
{
    write_members(&baseline);
}
