/* Fibers of scripts that are suspended when their request ends; see stack.h. */
#include "compat.h"
#include "worker/engine/engine.h"
#include "worker/stack/stack.h"

/* Functions that only make a call, and keep their state in their own frame. */
static const shim_function_names caller_names[] = {
    {NULL, "array_filter array_map array_reduce call_user_func call_user_func_array forward_static_call "
           "forward_static_call_array"},
    /* A span ends with its request, even if its function is still running. */
    {NULL, "svc\\trace\\span"},
    {"closure", "__invoke call"},
    {"generator", "current getreturn key next rewind send throw valid"},
    {"reflectionclass", "newinstance newinstanceargs"},
    {"reflectionfunction", "invoke invokeargs"},
    {"reflectionmethod", "invoke invokeargs"},
};

static const shim_function_names suspending_names[] = {{"fiber", "suspend"}};

static shim_function_set callers;
static shim_function_set suspending;

/* Whether the frame is at a call that runs through the zend_execute_ex() of a debugger or profiler. */
static bool is_at_call(const zend_execute_data *frame)
{
    if (zend_execute_ex == execute_ex || frame == NULL || frame->func == NULL || !ZEND_USER_CODE(frame->func->type) ||
        frame->opline == NULL) {
        return false;
    }
    switch (frame->opline->opcode) {
        case ZEND_DO_FCALL:
        case ZEND_DO_FCALL_BY_NAME:
        case ZEND_DO_UCALL:
            return true;
        default:
            return false;
    }
}

/* Whether the engine has called the frame in the middle of an operation. `bottom` is the frame below the fiber's first
 * one. */
static bool is_called_by_engine(const zend_execute_data *frame, const zend_execute_data *bottom)
{
    const zend_execute_data *caller = frame->prev_execute_data;
    const uint32_t info = ZEND_CALL_INFO(frame);
    const bool is_entry = (info & ZEND_CALL_TOP) != 0 && (info & (ZEND_CALL_GENERATOR | ZEND_CALL_CODE)) == 0;
    return is_entry && caller != bottom && !is_at_call(caller) &&
           !(caller != NULL && caller->func != NULL && shim_function_set_has(&callers, caller->func));
}

/* Whether a script suspended the fiber inside a call of PHP or the engine. The fiber in which the engine calls
 * destructors of garbage does not count: the engine suspends it, not the script. */
static bool is_inside_call(const zend_fiber *fiber)
{
    const zend_execute_data *frame = fiber->execute_data, *bottom = fiber->stack_bottom;
    if (frame == NULL || frame->func == NULL || !shim_function_set_has(&suspending, frame->func)) {
        return false;
    }
    for (frame = frame->prev_execute_data; frame != NULL && frame != bottom; frame = frame->prev_execute_data) {
        if (frame->func == NULL) {
            continue;
        }
        if (ZEND_USER_CODE(frame->func->type) ? is_called_by_engine(frame, bottom)
                                              : !shim_function_set_has(&callers, frame->func)) {
            return true;
        }
    }
    return false;
}

static zend_fiber *left_one(const shim_stack *stack, uint64_t request)
{
    zend_fiber *fiber = stack->left_by == request ? shim_stack_suspended(stack) : NULL;
    return fiber != NULL && is_inside_call(fiber) ? fiber : NULL;
}

zend_fiber *shim_left_fiber(uint64_t request)
{
    zend_fiber *fiber = NULL;
    for (const shim_stack *stack = shim_stack_first(); stack != NULL && fiber == NULL; stack = LIST_NEXT(stack, link)) {
        fiber = left_one(stack, request);
    }
    return fiber;
}

void shim_left_fiber_end(zend_fiber *fiber)
{
    GC_ADDREF(&fiber->std);
    fiber->std.handlers->dtor_obj(&fiber->std);
    OBJ_RELEASE(&fiber->std);
}

void shim_left_fibers_drop(uint64_t request)
{
    zend_fiber *fiber;
    while ((fiber = shim_left_fiber(request)) != NULL) {
        shim_stack_drop(fiber);
    }
}

void shim_left_fibers_install(void)
{
    shim_function_set_fill(&callers, caller_names, SHIM_COUNT(caller_names));
    shim_function_set_fill(&suspending, suspending_names, SHIM_COUNT(suspending_names));
}
