/* Corrections of PHP's class Fiber: memory that it would free twice, and variables that it reports twice. */
#include "compat.h"
#include "php/engine/engine.h"

#include <zend_generators.h>

/* ---- the variables of a fiber, as reported to the cycle collector ---- */

/* The variables of a script's fiber, as reported to the cycle collector.
 *
 * A function that includes a file shares one symbol table with the frame of the file. PHP reports the symbol tables of
 * a fiber to the collector once per frame, so these variables count twice: values that are also referenced elsewhere
 * look like garbage, and are destructed and freed while in use. Here, the symbol table of a frame is hidden from PHP if
 * the next outer frame has the same one.
 *
 * Nothing remains hidden after PHP has reported, even after a bailout. The table that PHP returns never hides
 * other tables. */

static zend_object_get_gc_t php_variables;

static zend_array *hidden(void)
{
    return (zend_array *)&zend_empty_array;
}

/* Returns the next outer frame of the script, whose symbol table an included file shares. */
static zend_execute_data *outer(const zend_execute_data *frame)
{
    zend_execute_data *next = frame->prev_execute_data;
    while (next != NULL && (next->func == NULL || !ZEND_USER_CODE(next->func->type))) {
        next = next->prev_execute_data;
    }
    return next;
}

static bool has_table(const zend_execute_data *frame)
{
    return frame->func != NULL && ZEND_USER_CODE(frame->func->type) &&
           (ZEND_CALL_INFO(frame) & ZEND_CALL_HAS_SYMBOL_TABLE) != 0;
}

/* Whether PHP reports the frame. It skips that of a generator that is not running: the generator reports its own
 * variables. */
static bool is_reported(const zend_execute_data *frame)
{
    if ((ZEND_CALL_INFO(frame) & ZEND_CALL_GENERATOR) == 0) {
        return true;
    }
    const zend_generator *generator = (const zend_generator *)frame->return_value;
    return (generator->flags & ZEND_GENERATOR_CURRENTLY_RUNNING) != 0;
}

static bool hide(zend_execute_data *frame)
{
    bool any = false;
    for (; frame != NULL; frame = frame->prev_execute_data) {
        const zend_execute_data *next = has_table(frame) ? outer(frame) : NULL;
        if (next != NULL && has_table(next) && is_reported(next) && next->symbol_table == frame->symbol_table) {
            frame->symbol_table = hidden();
            any = true;
        }
    }
    return any;
}

static void show(zend_execute_data *frame)
{
    while (frame != NULL) {
        if (!has_table(frame) || frame->symbol_table != hidden()) {
            frame = frame->prev_execute_data;
            continue;
        }
        zend_execute_data *owner = outer(frame);
        while (owner->symbol_table == hidden()) {
            owner = outer(owner);
        }
        for (; frame != owner; frame = outer(frame)) {
            frame->symbol_table = owner->symbol_table;
        }
    }
}

static HashTable *variables(zend_object *object, zval **list, int *count)
{
    const zend_fiber *fiber = (const zend_fiber *)object;
    const bool is_walked = fiber->context.status == ZEND_FIBER_STATUS_SUSPENDED && fiber->caller == NULL;
    if (!is_walked || !hide(fiber->execute_data)) {
        return php_variables(object, list, count);
    }
    HashTable *volatile table = NULL;
    volatile bool ended = false;
    zend_try {
        table = php_variables(object, list, count);
        ended = true;
    } zend_end_try();
    show(fiber->execute_data);
    if (!ended) {
        zend_bailout();
    }
    return table;
}

/* Replaces the handler of PHP's fibers that reports their variables to the cycle collector. */
static void install_fiber_variables(zend_object_handlers *handlers)
{
    php_variables = handlers->get_gc;
    handlers->get_gc = variables;
}

/* ---- methods ---- */

static zend_object_dtor_obj_t php_destroy_fiber;

/* Destroys a fiber and restores the opcode of a pending exception. A frame that handles an exception may destroy a
 * suspended fiber, whose `finally` block throws another exception. The frame would then continue at an opcode of the
 * fiber, and free variables that it does not have: unlike zend_objects_destroy_object(), zend_fiber_object_destroy()
 * does not restore the opcode. */
static void destroy_fiber(zend_object *object)
{
    const zend_op *opline = EG(opline_before_exception);
    const bool is_handled = EG(exception) != NULL;
    php_destroy_fiber(object);
    if (is_handled) {
        EG(opline_before_exception) = opline;
    }
}

void shim_fiber_class_install(void)
{
    zend_object_handlers *handlers = (zend_object_handlers *)zend_ce_fiber->default_object_handlers;
    php_destroy_fiber = handlers->dtor_obj;
    handlers->dtor_obj = destroy_fiber;
    install_fiber_variables(handlers);
}
