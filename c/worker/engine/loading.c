/* Loading of code, which the engine can do for only one request at a time.
 *
 * The compiler and the linking of classes keep their position in variables of the thread, as a stack of nested files.
 * While a class is being autoloaded, the engine reports to all other code that the class does not exist. Both may call
 * script code (error handlers, stream wrappers, autoloaders), and if a request waited there, another one would run in
 * between. A request that waits while it loads code therefore blocks its thread.
 *
 * The same holds for class constants: the first access evaluates a constant, which may call error handlers, and the
 * engine marks the constant meanwhile. Another request that found the mark would get an error: the constant refers to
 * itself. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"
#include "worker/engine/engine.h"

#include <zend_compile.h>
#include <zend_constants.h>

static zend_op_array *(*next_compile_file)(zend_file_handle *file, int type);
static __typeof__(zend_compile_string) next_compile_string;
static __typeof__(zend_autoload) next_autoload;

typedef struct load {
    shim_stack *stack;
    unsigned outer;
} load;

static load begin_load(void)
{
    shim_stack *stack = shim_stack_now();
    return (load){.stack = stack, .outer = stack->loads++};
}

/* Ends the load, and the loads inside it that a bailout has skipped. */
static void end_load(load ended)
{
    ended.stack->loads = ended.outer;
}

static zend_op_array *load_file(zend_file_handle *file, int type)
{
    const load own = begin_load();
    zend_op_array *code = next_compile_file(file, type);
    end_load(own);
    return code;
}

static zend_op_array *load_string(zend_string *source, const char *name, zend_compile_position position)
{
    const load own = begin_load();
    zend_op_array *code = next_compile_string(source, name, position);
    end_load(own);
    return code;
}

static zend_class_entry *load_class(zend_string *name, zend_string *lower_name)
{
    const load own = begin_load();
    zend_class_entry *class = next_autoload(name, lower_name);
    end_load(own);
    return class;
}

zval *zend_get_class_constant_ex(zend_string *class_name, zend_string *name, zend_class_entry *scope, uint32_t flags)
{
    const load own = begin_load();
    zval *value = NEXT(zend_get_class_constant_ex)(class_name, name, scope, flags);
    end_load(own);
    return value;
}

/* The engine's own flag, which is private to it. */
enum { VISITED = 0x80 };

/* Removes the marks of all constants: no evaluation is in progress. */
static void forget_constants(void)
{
    zend_class_entry *class;
    ZEND_HASH_FOREACH_PTR(CG(class_table), class) {
        if (class->type != ZEND_USER_CLASS || (class->ce_flags & ZEND_ACC_HAS_AST_CONSTANTS) == 0) {
            continue;
        }
        HashTable *constants = &class->constants_table;
        if (ZEND_MAP_PTR(class->mutable_data) != NULL) {
            const zend_class_mutable_data *own = ZEND_MAP_PTR_GET_IMM(class->mutable_data);
            /* Classes without their own table have no evaluated constants yet. */
            if (own == NULL || own->constants_table == NULL) {
                continue;
            }
            constants = own->constants_table;
        }
        zend_class_constant *constant;
        ZEND_HASH_FOREACH_PTR(constants, constant) {
            if (Z_TYPE(constant->value) == IS_CONSTANT_AST && (Z_CONSTANT_FLAGS(constant->value) & VISITED) != 0) {
                Z_CONSTANT_FLAGS(constant->value) &= ~(uint32_t)VISITED;
            }
        } ZEND_HASH_FOREACH_END();
    } ZEND_HASH_FOREACH_END();
}

/* Whether the fiber, or a stack that resumes when the fiber suspends, is loading code. */
static bool are_loading(const zend_fiber_context *context)
{
    while (context != NULL && context->kind == zend_ce_fiber) {
        const shim_stack *stack = shim_stack_of(context);
        if (stack != NULL && stack->loads > 0) {
            return true;
        }
        context = zend_fiber_from_context((zend_fiber_context *)context)->caller;
    }
    const shim_stack *stack = context != NULL ? shim_stack_of(context) : NULL;
    return stack != NULL && stack->loads > 0;
}

bool shim_is_loading(void)
{
    return CG(in_compilation) || CG(current_linking_class) != NULL || are_loading(EG(current_fiber_context));
}

void shim_loading_begin(void)
{
    shim_stack_now()->loads = 0;
}

static void forget_loads(void)
{
    if (EG(in_autoload) != NULL) {
        zend_hash_clean(EG(in_autoload));
    }
    forget_constants();
}

void shim_loading_forget(void)
{
    if (shim_stack_now()->loads > 0) {
        forget_loads();
    }
    CG(current_linking_class) = NULL;
    shim_stack_now()->loads = 0;
}

static void forget_loads_of(const shim_stack *stack)
{
    (void)stack;
    forget_loads();
}

static zif_handler php_opcache_compile_file;

/* Continues after a function of PHP has caught a bailout: the engine is not shutting down. */
static void continue_after_bailout(void)
{
    shim_own_worker.tainted = true;
    CG(unclean_shutdown) = 0;
    shim_collector_unprotect();
}

/* OPcache compiles without calling the engine's hook, and if the compiler bails out, reports to the script that
 * compiling has failed. */
static ZEND_FUNCTION(guarded_opcache_compile_file)
{
    const bool was_unclean = CG(unclean_shutdown);
    const load own = begin_load();
    php_opcache_compile_file(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    end_load(own);
    if (CG(unclean_shutdown) && !was_unclean && shim_own_worker.serving) {
        continue_after_bailout();
    }
}

void shim_loading_install(void)
{
    php_opcache_compile_file = shim_function_replace("opcache_compile_file", ZEND_FN(guarded_opcache_compile_file));
    shim_on_stack_lost_in_load = forget_loads_of;
    next_compile_file = zend_compile_file;
    zend_compile_file = load_file;
    next_compile_string = zend_compile_string;
    zend_compile_string = load_string;
    if (zend_autoload != NULL) {
        next_autoload = zend_autoload;
        zend_autoload = load_class;
    }
}
