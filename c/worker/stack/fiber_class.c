/* Corrections of PHP's class Fiber: memory that it would leak, or free twice. */
#include "compat.h"
#include "worker/engine/stacks.h"
#include "worker/stack/fiber_class.h"
#include "worker/stack/fiber_variables.h"

static zend_object_free_obj_t php_free_fiber;
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

/* Frees a fiber and, after a fatal error, its stack. PHP then runs no destructors, although the destructor of a fiber
 * is what frees its stack. The values on the stack are not released, like everything else that the script held. */
static void free_fiber(zend_object *object)
{
    zend_fiber *fiber = (zend_fiber *)object;
    if (CG(unclean_shutdown) && fiber->context.status == ZEND_FIBER_STATUS_SUSPENDED) {
        shim_stack_drop(fiber);
    }
    php_free_fiber(object);
}

void shim_fiber_class_install(void)
{
    zend_object_handlers *handlers = (zend_object_handlers *)zend_ce_fiber->default_object_handlers;
    php_free_fiber = handlers->free_obj;
    handlers->free_obj = free_fiber;
    php_destroy_fiber = handlers->dtor_obj;
    handlers->dtor_obj = destroy_fiber;
    shim_fiber_variables_install(handlers);
}
