/* Fibers of scripts that are suspended when their request ends; see left_fibers.h. */
#include "compat.h"
#include "engine/stacks.h"
#include "fiber/left_fibers.h"

/* Functions that only call, in lower case; NULL is no class. */
static const struct {
    const char *class;
    const char *names;
} caller_names[] = {
    {NULL, "array_filter array_map array_reduce call_user_func call_user_func_array forward_static_call "
           "forward_static_call_array"},
    /* A span ends with its request, whatever its function still does. */
    {NULL, "svc\\trace\\span"},
    {"closure", "__invoke call"},
    {"generator", "current getreturn key next rewind send throw valid"},
    {"reflectionclass", "newinstance newinstanceargs"},
    {"reflectionfunction", "invoke invokeargs"},
    {"reflectionmethod", "invoke invokeargs"},
};
enum { CALLERS_MAX = 32 };

/* Functions are told apart by the address of their name, which all threads share, and by the class that declares them. */
typedef struct caller {
    const zend_string *name;
    const zend_class_entry *class;
} caller;

static caller callers[CALLERS_MAX];
static size_t caller_count;
/* Fiber::suspend() */
static const zend_string *suspend_name;

static bool only_calls(const zend_function *function)
{
    size_t i = 0;
    while (i < caller_count &&
           (callers[i].name != function->common.function_name || callers[i].class != function->common.scope)) {
        i++;
    }
    return i < caller_count;
}

static bool suspends(const zend_function *function)
{
    return function != NULL && function->type == ZEND_INTERNAL_FUNCTION && function->common.scope == zend_ce_fiber &&
           function->common.function_name == suspend_name;
}

/* Whether an instruction calls what a debugger or profiler has every call pass through (zend_execute_ex). */
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

/* Whether the engine has called the frame in the middle of something of its own. `bottom` is the frame below the script's. */
static bool is_called_by_engine(const zend_execute_data *frame, const zend_execute_data *bottom)
{
    const zend_execute_data *caller = frame->prev_execute_data;
    const uint32_t info = ZEND_CALL_INFO(frame);
    const bool is_entry = (info & ZEND_CALL_TOP) != 0 && (info & (ZEND_CALL_GENERATOR | ZEND_CALL_CODE)) == 0;
    return is_entry && caller != bottom && !is_at_call(caller) &&
           !(caller != NULL && caller->func != NULL && caller->func->type == ZEND_INTERNAL_FUNCTION && only_calls(caller->func));
}

/* A fiber that the engine has suspended itself, to have it call the next destructors of garbage, is its own. */
static bool is_inside_call(const zend_fiber *fiber)
{
    const zend_execute_data *frame = fiber->execute_data, *bottom = fiber->stack_bottom;
    if (frame == NULL || !suspends(frame->func)) {
        return false;
    }
    for (frame = frame->prev_execute_data; frame != NULL && frame != bottom; frame = frame->prev_execute_data) {
        if (frame->func == NULL) {
            continue;
        }
        if (ZEND_USER_CODE(frame->func->type) ? is_called_by_engine(frame, bottom) : !only_calls(frame->func)) {
            return true;
        }
    }
    return false;
}

static zend_fiber *left_one(const shim_stack *stack, uint64_t request)
{
    zend_fiber_context *context = stack->context;
    if (stack->left_by != request || context->kind != zend_ce_fiber || context->status != ZEND_FIBER_STATUS_SUSPENDED) {
        return NULL;
    }
    zend_fiber *fiber = zend_fiber_from_context(context);
    return fiber->caller == NULL && is_inside_call(fiber) ? fiber : NULL;
}

zend_fiber *shim_left_fiber(uint64_t request)
{
    zend_fiber *fiber = NULL;
    for (const shim_stack *stack = shim_stack_first(); stack != NULL && fiber == NULL; stack = stack->next) {
        fiber = left_one(stack, request);
    }
    return fiber;
}

size_t shim_left_fibers_count(uint64_t request)
{
    size_t count = 0;
    for (const shim_stack *stack = shim_stack_first(); stack != NULL; stack = stack->next) {
        count += left_one(stack, request) != NULL;
    }
    return count;
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

static void add_all(const char *class_name, const char *names)
{
    const HashTable *functions = CG(function_table);
    if (class_name != NULL) {
        const zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), class_name, strlen(class_name));
        if (class == NULL) {
            return;
        }
        functions = &class->function_table;
    }
    for (const char *name = names; *name != '\0';) {
        const size_t length = strcspn(name, " ");
        const zend_function *function = zend_hash_str_find_ptr(functions, name, length);
        if (function != NULL && caller_count < CALLERS_MAX) {
            callers[caller_count++] = (caller){.name = function->common.function_name, .class = function->common.scope};
        }
        name += length + (name[length] == ' ');
    }
}

void shim_left_fibers_install(void)
{
    for (size_t i = 0; i < sizeof(caller_names) / sizeof(*caller_names); i++) {
        add_all(caller_names[i].class, caller_names[i].names);
    }
    const zend_function *suspend = zend_hash_str_find_ptr(&zend_ce_fiber->function_table, ZEND_STRL("suspend"));
    suspend_name = suspend != NULL ? suspend->common.function_name : NULL;
}
