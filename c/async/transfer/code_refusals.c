/* Closures that cannot run as a task: because of the values that they hold, or because a thread that has not loaded
 * their file could not run them. */
#include "async/transfer/transfer.h"

#include <zend_closures.h>

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
        shim_transfer_throw("a task cannot be bound to $this; make the closure static");
        return true;
    }
    if (is_anonymous(closure->scope) || is_anonymous(closure->called_scope)) {
        shim_transfer_throw("a task cannot be bound to an anonymous class");
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
            shim_transfer_throw("a task cannot take parameter $%s by reference", name_of_parameter(function, i));
            return true;
        }
    }
    return false;
}

/* ---- its code ---- */

static bool is_declaration(uint8_t opcode)
{
    return opcode == ZEND_DECLARE_CLASS || opcode == ZEND_DECLARE_CLASS_DELAYED || opcode == ZEND_DECLARE_ANON_CLASS;
}

static bool is_code_refused(const zend_op_array *code)
{
    for (uint32_t i = 0; i < code->last; i++) {
        if (is_declaration(code->opcodes[i].opcode)) {
            shim_transfer_throw("a task cannot declare a class: %s:%u", ZSTR_VAL(code->filename), code->opcodes[i].lineno);
            return true;
        }
    }
    for (uint32_t i = 0; i < code->num_dynamic_func_defs; i++) {
        if (is_code_refused(code->dynamic_func_defs[i])) {
            return true;
        }
    }
    return false;
}

/* Functions inside the task may capture by reference. */
static bool are_variables_refused(const zend_op_array *code)
{
    const uint32_t flags = ZEND_BIND_REF | ZEND_BIND_IMPLICIT | ZEND_BIND_EXPLICIT;
    for (uint32_t i = 0; i < code->last; i++) {
        const zend_op *opline = &code->opcodes[i];
        const uint32_t value = opline->extended_value;
        if (opline->opcode == ZEND_BIND_STATIC && (value & ZEND_BIND_REF) != 0 &&
            (value & (ZEND_BIND_IMPLICIT | ZEND_BIND_EXPLICIT)) != 0) {
            const Bucket *variable = (Bucket *)((char *)code->static_variables->arData + (value & ~flags));
            shim_transfer_throw("a task cannot capture $%s by reference", ZSTR_VAL(variable->key));
            return true;
        }
    }
    return false;
}

static bool is_function_refused(const zend_op_array *code)
{
    if ((code->fn_flags & ZEND_ACC_GENERATOR) != 0) {
        shim_transfer_throw("a task cannot be a generator");
        return true;
    }
    if (strstr(ZSTR_VAL(code->filename), " : eval()'d code") != NULL) {
        shim_transfer_throw("a task cannot come from eval()");
        return true;
    }
    return are_variables_refused(code) || is_code_refused(code);
}

bool shim_code_refused(const shim_closure *closure)
{
    const zend_function *function = closure->function;
    if (is_binding_refused(closure)) {
        return true;
    }
    if (is_trampoline(closure)) {
        shim_transfer_throw("a task cannot be a call of %s::__callStatic()",
                            closure->scope != NULL ? ZSTR_VAL(closure->scope->name) : "");
        return true;
    }
    if (function->type == ZEND_USER_FUNCTION && is_function_refused(&function->op_array)) {
        return true;
    }
    return are_parameters_refused(function);
}
