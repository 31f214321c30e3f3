/* Engine variables of a thread that belong to a stack; see engine.h. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "worker/engine/engine.h"

#include <ext/standard/php_array.h>
#include <zend_compile.h>
#include <zend_globals.h>
#include <zend_language_scanner.h>

/* Parts of extensions' structs. A saved block stores them back to back. */
enum { PARTS_MAX = 16, BLOCK_MAX = 512 };

static struct {
    ts_rsrc_id structure;
    size_t offset;
    size_t size;
} parts[PARTS_MAX];
static size_t part_count;
static size_t block_size;

/* For lists of DO(the macro that accesses the member, its name). */
#define DECLARE_MEMBER(access, member) __typeof__(access(member)) member;
#define READ_MEMBER(access, member) to->member = access(member);
#define WRITE_MEMBER(access, member) access(member) = from->member;

/* The engine's own variables. */
#define CALL_MEMBERS(DO) \
    /* The family of usort() */ \
    DO(BG, user_compare_fci) DO(BG, user_compare_fci_cache) \
    /* serialize(), unserialize() */ \
    DO(BG, serialize_lock) DO(BG, serialize) DO(BG, unserialize) \
    /* Constructors that turn warnings into exceptions */ \
    DO(EG, error_handling) DO(EG, exception_class) \
    /* The linking of a class, whose errors may be cached with it */ \
    DO(EG, record_errors) DO(EG, errors) \
    /* Attributes */ \
    DO(EG, filename_override) DO(EG, lineno_override) \
    /* Stream wrappers of scripts */ \
    DO(FG, user_stream_current_filename) DO(PG, in_user_include)

typedef struct calls {
    CALL_MEMBERS(DECLARE_MEMBER)
    uint32_t error_count;
} calls;

/* The members of the compiler and the linker. Members that are not listed belong to the thread, such as the tables of
 * classes, or have no value while a script runs. */
#define COMPILER_MEMBERS(DO) \
    DO(CG, loop_var_stack) DO(CG, active_class_entry) DO(CG, compiled_filename) DO(CG, zend_lineno) \
    DO(CG, active_op_array) DO(CG, in_compilation) DO(CG, skip_shebang) DO(CG, increment_lineno) \
    DO(CG, encoding_declared) DO(CG, doc_comment) DO(CG, extra_fn_flags) DO(CG, compiler_options) DO(CG, context) \
    DO(CG, file_context) DO(CG, ast) DO(CG, ast_arena) DO(CG, delayed_oplines_stack) DO(CG, short_circuiting_opnums) \
    DO(CG, memoized_exprs) DO(CG, memoize_mode) DO(CG, current_linking_class)

typedef struct compilation {
    COMPILER_MEMBERS(DECLARE_MEMBER)
    zend_php_scanner_globals scanner;
} compilation;

typedef struct shim_saved {
    /* Whether no call is in progress: `calls` and `block` have no value. */
    bool is_at_rest;
    calls calls;
    /* NULL until the stack is left while it loads code. */
    compilation *compilation;
    bool is_compiling;
    char block[];
} shim_saved;

/* The slot in which contexts keep their record. */
static int handle = -1;

static __thread shim_stack own;
static __thread LIST_HEAD(, shim_stack) stacks;
static __thread size_t script_fibers;
/* A placeholder for a record that could not be allocated. */
static __thread shim_stack spare;

void (*shim_on_stack_lost_in_load)(const shim_stack *lost_stack);

static const calls no_calls = {.lineno_override = -1};

#define SCANNER TSRMG_BULK(language_scanner_globals_id, zend_php_scanner_globals *)

/* ---- the variables of the thread ---- */

static void read_calls(calls *to)
{
    CALL_MEMBERS(READ_MEMBER)
    to->error_count = SHIM_RECORDED_ERRORS();
}

static void write_calls(const calls *from)
{
    CALL_MEMBERS(WRITE_MEMBER)
    SHIM_SET_RECORDED_ERRORS(from->error_count);
}

static void read_compilation(compilation *to)
{
    COMPILER_MEMBERS(READ_MEMBER)
    to->scanner = *SCANNER;
}

static void write_compilation(const compilation *from)
{
    COMPILER_MEMBERS(WRITE_MEMBER)
    *SCANNER = from->scanner;
}

/* Resets the compiler to its state between two compilations, with empty buffers. */
static void stop_compiling(void)
{
    compilation none = {0};
    none.compiler_options = CG(compiler_options);
    none.loop_var_stack.size = CG(loop_var_stack).size;
    none.delayed_oplines_stack.size = CG(delayed_oplines_stack).size;
    none.short_circuiting_opnums.size = CG(short_circuiting_opnums).size;
    none.scanner.state_stack.size = SCANNER->state_stack.size;
    none.scanner.nest_location_stack.size = SCANNER->nest_location_stack.size;
    write_compilation(&none);
}

/* Frees the compiler's buffers. */
static void end_compiling(void)
{
    zend_stack_destroy(&CG(loop_var_stack));
    zend_stack_destroy(&CG(delayed_oplines_stack));
    zend_stack_destroy(&CG(short_circuiting_opnums));
    zend_stack_destroy(&SCANNER->state_stack);
    zend_stack_destroy(&SCANNER->nest_location_stack);
    zend_ptr_stack_destroy(&SCANNER->heredoc_label_stack);
}

static char *part_at(size_t index)
{
    return TSRMG_BULK_STATIC(parts[index].structure, char *) + parts[index].offset;
}

static void read_parts(char *block)
{
    for (size_t i = 0; i < part_count; i++) {
        memcpy(block, part_at(i), parts[i].size);
        block += parts[i].size;
    }
}

static void write_parts(const char *block)
{
    for (size_t i = 0; i < part_count; i++) {
        memcpy(part_at(i), block, parts[i].size);
        block += parts[i].size;
    }
}

static const char no_parts[BLOCK_MAX];

/* Whether no call is in progress on the running stack. Most switches are between such stacks, and copy nothing. */
static bool are_at_rest(void)
{
    if (BG(user_compare_fci).size != 0 || BG(serialize_lock) != 0 || BG(serialize).level != 0 || BG(unserialize).level != 0 ||
        EG(error_handling) != EH_NORMAL || EG(record_errors) || SHIM_RECORDED_ERRORS() != 0 || EG(filename_override) != NULL ||
        EG(lineno_override) != -1 || FG(user_stream_current_filename) != NULL || PG(in_user_include)) {
        return false;
    }
    for (size_t i = 0; i < part_count; i++) {
        if (memcmp(part_at(i), no_parts, parts[i].size) != 0) {
            return false;
        }
    }
    return true;
}

/* ---- records ---- */

static shim_saved *new_saved(void)
{
    shim_saved *saved = calloc(1, sizeof(*saved) + block_size);
    if (saved != NULL) {
        saved->is_at_rest = true;
    }
    return saved;
}

static void free_saved(shim_stack *stack)
{
    if (stack->saved != NULL) {
        free(stack->saved->compilation);
        free(stack->saved);
        stack->saved = NULL;
    }
}

shim_stack *shim_stack_of(const zend_fiber_context *context)
{
    return context == EG(main_fiber_context) ? &own : context->reserved[handle];
}

shim_stack *shim_stack_now(void)
{
    const zend_fiber_context *context = EG(current_fiber_context);
    shim_stack *stack = context != NULL && handle >= 0 ? shim_stack_of(context) : &own;
    return stack != NULL ? stack : &spare;
}

shim_stack *shim_stack_first(void)
{
    return LIST_FIRST(&stacks);
}

size_t shim_stacks_of_scripts(void)
{
    return script_fibers;
}

static void begin_stack(zend_fiber_context *context)
{
    shim_stack *stack = calloc(1, sizeof(*stack));
    context->reserved[handle] = stack;
    if (stack == NULL) {
        return;
    }
    stack->context = context;
    script_fibers += context->kind == zend_ce_fiber;
    stack->saved = new_saved();
    LIST_INSERT_HEAD(&stacks, stack, link);
}

static void free_stack(shim_stack *stack)
{
    LIST_REMOVE(stack, link);
    free_saved(stack);
    free(stack);
}

static void end_stack(zend_fiber_context *context)
{
    shim_stack *stack = context->reserved[handle];
    context->reserved[handle] = NULL;
    if (stack == NULL) {
        return;
    }
    if (stack->loads > 0) {
        shim_on_stack_lost_in_load(stack);
    }
    script_fibers -= context->kind == zend_ce_fiber;
    free_stack(stack);
}

void shim_stacks_forget(void)
{
    while (!LIST_EMPTY(&stacks)) {
        free_stack(LIST_FIRST(&stacks));
    }
    script_fibers = 0;
    free_saved(&own);
    own = (shim_stack){0};
}

zend_fiber *shim_stack_suspended(const shim_stack *stack)
{
    zend_fiber_context *context = stack->context;
    if (context->kind != zend_ce_fiber || context->status != ZEND_FIBER_STATUS_SUSPENDED) {
        return NULL;
    }
    zend_fiber *suspended = zend_fiber_from_context(context);
    return suspended->caller == NULL ? suspended : NULL;
}

void shim_stack_drop(zend_fiber *suspended)
{
    suspended->context.cleanup = NULL;
    zend_fiber_destroy_context(&suspended->context);
    suspended->context.status = ZEND_FIBER_STATUS_DEAD;
}

static bool has_handler(const void *handler)
{
    int i = 0;
    while (i < OG(handlers).top && ((const void **)OG(handlers).elements)[i] != handler) {
        i++;
    }
    return i < OG(handlers).top;
}

/* Drops suspended fibers whose output handler no longer exists. A script that uses output buffers while a callback runs
 * ends with a fatal error (php_output_lock_error()), which frees all handlers. So does a lack of memory. */
void shim_stacks_drop_without_output(void)
{
    shim_stack *next = NULL;
    for (shim_stack *stack = LIST_FIRST(&stacks); stack != NULL; stack = next) {
        next = LIST_NEXT(stack, link);
        zend_fiber *suspended = stack->output != NULL ? shim_stack_suspended(stack) : NULL;
        if (suspended != NULL && !has_handler(stack->output)) {
            shim_stack_drop(suspended);
        }
    }
}

/* ---- switches ---- */

static void save_compilation(shim_saved *saved)
{
    if (saved->compilation == NULL) {
        saved->compilation = malloc(sizeof(*saved->compilation));
    }
    if (saved->compilation != NULL) {
        read_compilation(saved->compilation);
        saved->is_compiling = true;
        stop_compiling();
    }
}

static void note_output(shim_stack *stack)
{
    if (OG(running) == NULL || stack->output_before != OG(running)) {
        stack->output = OG(running);
    }
}

static void leave_stack(shim_stack *stack, bool is_at_rest)
{
    note_output(stack);
    stack->left_by = shim_current != NULL ? shim_current->serial : 0;
    stack->free_depth = shim_free_depth_here();
    if (stack->saved == NULL) {
        stack->saved = new_saved();
    }
    if (stack->saved == NULL) {
        return;
    }
    stack->saved->is_at_rest = is_at_rest;
    if (!is_at_rest) {
        read_calls(&stack->saved->calls);
        read_parts(stack->saved->block);
    }
    if (stack->loads > 0) {
        save_compilation(stack->saved);
    }
}

/* `is_at_rest` is the state of the stack that has been running until now. */
static void enter_stack(shim_stack *stack, bool is_at_rest)
{
    stack->output_before = OG(running);
    shim_free_depth_return_to(stack->free_depth);
    if (stack->saved == NULL) {
        return;
    }
    if (!stack->saved->is_at_rest) {
        write_calls(&stack->saved->calls);
        write_parts(stack->saved->block);
    } else if (!is_at_rest) {
        write_calls(&no_calls);
        write_parts(no_parts);
    }
    if (stack->saved->is_compiling) {
        stack->saved->is_compiling = false;
        end_compiling();
        write_compilation(stack->saved->compilation);
    }
}

static void change_stack(zend_fiber_context *from, zend_fiber_context *to)
{
    shim_stack *left = shim_stack_of(from);
    shim_stack *entered = shim_stack_of(to);
    const bool is_at_rest = are_at_rest();
    if (left != NULL) {
        leave_stack(left, is_at_rest);
    }
    if (entered == NULL) {
        spare = (shim_stack){0};
        entered = &spare;
    }
    enter_stack(entered, is_at_rest);
}

void shim_stacks_add(ts_rsrc_id structure, size_t offset, size_t size)
{
    if (part_count == PARTS_MAX || block_size + size > BLOCK_MAX) {
        return;
    }
    parts[part_count].structure = structure;
    parts[part_count].offset = offset;
    parts[part_count++].size = size;
    block_size += size;
}

int shim_stacks_slot(void)
{
    if (handle < 0) {
        handle = zend_get_resource_handle("svc");
    }
    return handle;
}

bool shim_stacks_install(void)
{
    if (shim_stacks_slot() < 0) {
        return false;
    }
    zend_observer_fiber_init_register(begin_stack);
    zend_observer_fiber_switch_register(change_stack);
    zend_observer_fiber_destroy_register(end_stack);
    return true;
}
