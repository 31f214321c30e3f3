/* The engine's marks in objects for the calls that a stack is inside of.
 *
 * While `__get('a')` of an object runs, a guard in the object records it, and code that reads `a` meanwhile reaches the
 * property itself instead of calling the method again. This is meant for the method, that is, for one stack. If the
 * stack is suspended inside the method, another stack finds the guard: that of another client's request, or of the next
 * request if a script's own fiber stays suspended. So a suspended stack takes its guards along, and restores them when
 * it continues.
 *
 * Location: a guard lies beside the object's properties: with the name of its property while one guard suffices, or in a
 * table. The engine renames a guard of the first kind as soon as it is cleared, and the C frame that will clear it
 * knows only its address: so the object gets a table first, in which names and addresses remain.
 *
 * Ownership: all guards that are set belong to the running stack and to those that have resumed it, because the others
 * have taken theirs along. The frames tell which objects to examine: a guard is set as long as the frame of its method
 * exists.
 *
 * Marks against recursion (worker/engine/marking.c) cannot be found in that way: a stack that has left some must not be
 * suspended. A script's fiber cannot be prevented from it; while it is suspended, no request of the thread parks. The
 * exception is the most frequent case: json_encode() of an object that serializes itself and was reached through arrays
 * only. From the argument, a single path of marks then leads to that object, and the marks on it are lifted, too. */
#include "compat.h"
#include "php/engine/engine.h"
#include "worker/engine/engine.h"
#include "worker/stack/stack.h"

#include <stdlib.h>

typedef struct shim_held_bits {
    uint32_t *bits;
    uint32_t held;
} shim_held_bits;

/* The number of frames that are examined; a request with more of them is not suspended. */
enum { FRAMES_MAX = 16 * 1024 };

/* ---- one stack ---- */

static bool add(shim_guards *guards, uint32_t *bits, uint32_t mask)
{
    if (!SHIM_RESERVE(*guards)) {
        return false;
    }
    guards->list[guards->count++] = (shim_held_bits){.bits = bits, .held = *bits & mask};
    *bits &= ~mask;
    return true;
}

/* Requests the guard of a different name than the one that is set, so that the engine creates a table. */
static void make_table(zend_object *object, const zval *guard)
{
    zend_string *other = Z_STRLEN_P(guard) > 0 ? ZSTR_EMPTY_ALLOC() : ZSTR_CHAR('0');
    shim_memory_limit_lift();
    (void)zend_get_property_guard(object, other);
    shim_memory_limit_apply();
}

static bool lift_from(shim_guards *guards, zend_object *object)
{
    zval *guard = object->properties_table + object->ce->default_properties_count;
    if (Z_TYPE_P(guard) == IS_STRING && (SHIM_GUARD(guard) & SHIM_GUARD_MASK) != 0) {
        make_table(object, guard);
    }
    if (Z_TYPE_P(guard) != IS_ARRAY) {
        return true;
    }
    void *address;
    ZEND_HASH_FOREACH_PTR(Z_ARRVAL_P(guard), address) {
        /* The lowest bit marks the first guard of the object. */
        uint32_t *bits = (uint32_t *)((uintptr_t)address & ~(uintptr_t)1);
        if ((*bits & SHIM_GUARD_MASK) != 0 && !add(guards, bits, SHIM_GUARD_MASK)) {
            return false;
        }
    } ZEND_HASH_FOREACH_END();
    return true;
}

/* Returns the object that the frame runs in, if it can have guards; NULL otherwise. */
static zend_object *guarded(const zend_execute_data *frame)
{
    const bool has_object = frame->func != NULL && Z_TYPE(frame->This) == IS_OBJECT;
    return has_object && (Z_OBJCE(frame->This)->ce_flags & ZEND_ACC_USE_GUARDS) != 0 ? Z_OBJ(frame->This) : NULL;
}

/* ---- json_encode() ---- */

enum { ARRAY_MASK = GC_PROTECTED << GC_FLAGS_SHIFT, ELEMENTS_MAX = 4096 };

static bool is_marked(const zval *value)
{
    if (Z_TYPE_P(value) == IS_ARRAY) {
        return (GC_TYPE_INFO(Z_ARRVAL_P(value)) & ARRAY_MASK) != 0;
    }
    if (Z_TYPE_P(value) != IS_OBJECT) {
        return false;
    }
    const uint32_t *bits = SHIM_JSON_BITS(Z_OBJ_P(value));
    return (GC_TYPE_INFO(Z_OBJ_P(value)) & ARRAY_MASK) != 0 || (bits != NULL && (*bits & SHIM_JSON_MASK) != 0);
}

/* Returns the only marked value in the array; NULL if there is none, or more than one. */
static zval *marked_in(HashTable *array, size_t *elements)
{
    zval *found = NULL, *value;
    ZEND_HASH_FOREACH_VAL_IND(array, value) {
        ZVAL_DEREF(value);
        if (++*elements > ELEMENTS_MAX) {
            return NULL;
        }
        if (!is_marked(value)) {
            continue;
        }
        if (found != NULL && Z_COUNTED_P(found) != Z_COUNTED_P(value)) {
            return NULL;
        }
        found = value;
    } ZEND_HASH_FOREACH_END();
    return found;
}

/* Whether the frame is that of json_encode(), which calls `above`, and all of its marks are known. Lifts them into
 * `guards` unless that is NULL. */
static bool are_known(const zend_execute_data *frame, const zend_execute_data *above, shim_guards *guards)
{
    const bool is_encoding = shim_frame_encodes(frame) && above != NULL && above->func != NULL &&
                             above->func->common.function_name != NULL && Z_TYPE(above->This) == IS_OBJECT &&
                             ZEND_CALL_NUM_ARGS(frame) > 0 &&
                             zend_string_equals_literal_ci(above->func->common.function_name, "jsonSerialize");
    zval *value = is_encoding ? ZEND_CALL_ARG(frame, 1) : NULL;
    size_t elements = 0;
    for (; value != NULL && Z_TYPE_P(value) == IS_ARRAY; value = marked_in(Z_ARRVAL_P(value), &elements)) {
        if (guards != NULL && !add(guards, &GC_TYPE_INFO(Z_ARRVAL_P(value)), ARRAY_MASK)) {
            return false;
        }
    }
    if (value == NULL || Z_TYPE_P(value) != IS_OBJECT || Z_OBJ_P(value) != Z_OBJ(above->This)) {
        return false;
    }
    uint32_t *bits = SHIM_JSON_BITS(Z_OBJ_P(value));
    return bits != NULL && (*bits & SHIM_JSON_MASK) != 0 && (guards == NULL || add(guards, bits, SHIM_JSON_MASK));
}

bool shim_guards_lift(shim_guards *guards, const zend_execute_data *bottom)
{
    size_t frames = 0;
    const zend_object *last = NULL;
    const zend_execute_data *above = NULL;
    for (const zend_execute_data *frame = EG(current_execute_data); frame != NULL && frame != bottom;
         frame = frame->prev_execute_data) {
        zend_object *object = guarded(frame);
        if (++frames > FRAMES_MAX || (object != NULL && object != last && !lift_from(guards, object))) {
            shim_guards_restore(guards);
            return false;
        }
        /* Unknown marks stay: a request is not suspended there, and a fiber that suspends itself is remembered. */
        if (shim_frame_encodes(frame) && are_known(frame, above, NULL)) {
            (void)are_known(frame, above, guards);
        }
        above = frame;
        last = object != NULL ? object : last;
    }
    return true;
}

void shim_guards_restore(shim_guards *guards)
{
    while (guards->count > 0) {
        const shim_held_bits *one = &guards->list[--guards->count];
        *one->bits |= one->held;
    }
}

void shim_guards_free(shim_guards *guards)
{
    free(guards->list);
    *guards = (shim_guards){0};
}

/* ---- the fibers of scripts ---- */

typedef struct suspended_stack {
    struct suspended_stack *next;
    const zend_fiber_context *context;
    shim_guards guards;
    bool has_marked;
} suspended_stack;

/* The suspended stacks of this thread that hold guards or have left marks; nearly always none. */
static __thread suspended_stack *stacks;
static __thread size_t marking_count;

static bool marks(const zend_execute_data *bottom)
{
    size_t frames = 0;
    const zend_execute_data *frame = EG(current_execute_data), *above = NULL;
    while (frame != NULL && frame != bottom && ++frames <= FRAMES_MAX &&
           (!shim_frame_marks(frame) || are_known(frame, above, NULL))) {
        above = frame;
        frame = frame->prev_execute_data;
    }
    return frame != NULL && frame != bottom;
}

bool shim_values_are_marked(const zend_execute_data *bottom)
{
    return marking_count > 0 || marks(bottom);
}

static suspended_stack *take_out(const zend_fiber_context *context)
{
    suspended_stack **link = &stacks;
    while (*link != NULL && (*link)->context != context) {
        link = &(*link)->next;
    }
    suspended_stack *stack = *link;
    if (stack != NULL) {
        *link = stack->next;
        marking_count -= stack->has_marked;
    }
    return stack;
}

static void let_go(suspended_stack *stack)
{
    shim_guards_free(&stack->guards);
    free(stack);
}

/* Returns the bottom of a stack that Fiber::suspend() leaves; NULL if it is left for another reason. */
static const zend_execute_data *suspended_bottom(const zend_fiber_context *from)
{
    const zend_fiber *active = EG(active_fiber);
    const bool is_suspended = from->kind == zend_ce_fiber && from->status == ZEND_FIBER_STATUS_RUNNING && active != NULL &&
                              active->caller == NULL;
    return is_suspended ? active->stack_bottom : NULL;
}

static void put_aside(const zend_fiber_context *context, const zend_execute_data *bottom)
{
    shim_guards guards = {0};
    const bool has_marked = marks(bottom);
    /* If lifting fails, the guards stay set, as they do without svc. */
    (void)shim_guards_lift(&guards, bottom);
    suspended_stack *stack = has_marked || guards.count > 0 ? malloc(sizeof(*stack)) : NULL;
    if (stack == NULL) {
        shim_guards_restore(&guards);
        shim_guards_free(&guards);
        return;
    }
    *stack = (suspended_stack){.next = stacks, .context = context, .guards = guards, .has_marked = has_marked};
    stacks = stack;
    marking_count += has_marked;
}

static void change_stack(zend_fiber_context *from, zend_fiber_context *to)
{
    const zend_execute_data *bottom = suspended_bottom(from);
    if (bottom != NULL) {
        put_aside(from, bottom);
    }
    suspended_stack *stack = stacks != NULL ? take_out(to) : NULL;
    if (stack != NULL) {
        shim_guards_restore(&stack->guards);
        let_go(stack);
    }
}

static void end_stack(zend_fiber_context *context)
{
    suspended_stack *stack = stacks != NULL ? take_out(context) : NULL;
    if (stack != NULL) {
        let_go(stack);
    }
}

void shim_guards_follow_fibers(void)
{
    zend_observer_fiber_switch_register(change_stack);
    zend_observer_fiber_destroy_register(end_stack);
}
