/* Closures that cannot run as a task: because of the values that they hold, or because a thread that has not loaded
 * their file could not run them. */
#include "async/transfer/code_refusals.h"
#include "async/transfer/code_walk.h"
#include "async/transfer/exceptions.h"

#include <zend_closures.h>

void shim_code_refuse(const char *format, ...)
{
    va_list arguments;
    char *message;
    va_start(arguments, format);
    vspprintf(&message, 0, format, arguments);
    va_end(arguments);
    shim_transfer_throw(message);
    efree(message);
}

shim_closure shim_closure_of(zend_object *object)
{
    shim_closure closure = {0};
    /* Closures have this handler only, and it neither fails nor throws. */
    (void)object->handlers->get_closure(object, &closure.called_scope, &closure.function, &closure.self, true);
    closure.scope = closure.function->common.scope;
    return closure;
}

zend_function *shim_closure_named(zend_class_entry *scope, const zend_string *name)
{
    zend_string *lower = zend_string_tolower((zend_string *)name);
    zend_function *function = zend_hash_find_ptr(scope != NULL ? &scope->function_table : EG(function_table), lower);
    zend_string_release(lower);
    return function;
}

/* ---- its bindings ---- */

static bool is_anonymous(const zend_class_entry *class)
{
    return class != NULL && (class->ce_flags & ZEND_ACC_ANON_CLASS) != 0;
}

static bool is_binding_refused(const shim_closure *closure)
{
    if (closure->self != NULL) {
        shim_code_refuse("a task cannot be bound to $this; make the closure static");
        return true;
    }
    if (is_anonymous(closure->scope) || is_anonymous(closure->called_scope)) {
        shim_code_refuse("a task cannot be bound to an anonymous class");
        return true;
    }
    return false;
}

/* Whether the function was made for one call of an undefined method, which it passes on to __call() or __callStatic(). */
static bool is_trampoline(const shim_closure *closure)
{
    if (closure->function->type == ZEND_USER_FUNCTION) {
        return (closure->function->common.fn_flags & ZEND_ACC_CALL_VIA_TRAMPOLINE) != 0;
    }
    const zend_function *named = shim_closure_named(closure->scope, closure->function->common.function_name);
    return named == NULL || named->type != ZEND_INTERNAL_FUNCTION;
}

/* ---- its parameters and variables ---- */

static const char *name_of_parameter(const zend_function *function, uint32_t index)
{
    /* Internal functions store the names of their parameters in a different type. */
    return function->type == ZEND_USER_FUNCTION ? ZSTR_VAL(function->common.arg_info[index].name)
                                                : ((const zend_internal_arg_info *)function->common.arg_info)[index].name;
}

static bool are_parameters_refused(const zend_function *function)
{
    const uint32_t count = function->common.num_args + ((function->common.fn_flags & ZEND_ACC_VARIADIC) != 0);
    for (uint32_t i = 0; i < count; i++) {
        if (ZEND_ARG_SEND_MODE(&function->common.arg_info[i]) == ZEND_SEND_BY_REF) {
            shim_code_refuse("a task cannot take parameter $%s by reference", name_of_parameter(function, i));
            return true;
        }
    }
    return false;
}

static bool are_variables_refused(const zend_op_array *code)
{
    if (code->static_variables == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < code->static_variables->nNumUsed; i++) {
        if (shim_static_kind_of(code, i) == SHIM_STATIC_CAPTURED_REFERENCE) {
            shim_code_refuse("a task cannot capture $%s by reference", ZSTR_VAL(code->static_variables->arData[i].key));
            return true;
        }
    }
    return false;
}

/* ---- its code ---- */

static bool find_class(const zend_op_array *code, const zend_op *opline, void *found)
{
    switch (opline->opcode) {
        case ZEND_DECLARE_CLASS:
        case ZEND_DECLARE_CLASS_DELAYED:
        case ZEND_DECLARE_ANON_CLASS:
            shim_code_refuse("a task cannot declare a class: %s:%u", ZSTR_VAL(code->filename), opline->lineno);
            *(bool *)found = true;
            return false;
        default:
            return true;
    }
}

static bool is_code_refused(const zend_op_array *code)
{
    bool found = false;
    if ((code->fn_flags & ZEND_ACC_GENERATOR) != 0) {
        shim_code_refuse("a task cannot be a generator");
        return true;
    }
    if (strstr(ZSTR_VAL(code->filename), " : eval()'d code") != NULL) {
        shim_code_refuse("a task cannot come from eval()");
        return true;
    }
    (void)shim_code_walk(code, find_class, &found);
    return found;
}

bool shim_code_refused(const shim_closure *closure)
{
    const zend_function *function = closure->function;
    if (is_binding_refused(closure)) {
        return true;
    }
    if (is_trampoline(closure)) {
        shim_code_refuse("a task cannot be a call of %s::__callStatic()", closure->scope != NULL ? ZSTR_VAL(closure->scope->name) : "");
        return true;
    }
    if (function->type == ZEND_USER_FUNCTION && (are_variables_refused(&function->op_array) || is_code_refused(&function->op_array))) {
        return true;
    }
    return are_parameters_refused(function);
}
