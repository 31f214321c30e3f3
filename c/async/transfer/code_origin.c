/* The function that a closure of this thread was made from: it is declared in a function, a method, or a file that is
 * still running. */
#include "async/transfer/code_origin.h"

static const zend_op_array *find_in(const zend_op_array *outer, const zend_op_array *code)
{
    for (uint32_t i = 0; i < outer->num_dynamic_func_defs; i++) {
        const zend_op_array *inner = outer->dynamic_func_defs[i];
        const zend_op_array *found = inner->opcodes == code->opcodes ? inner : find_in(inner, code);
        if (found != NULL) {
            return found;
        }
    }
    return NULL;
}

static const zend_op_array *find_in_table(HashTable *functions, const zend_op_array *code)
{
    const zend_function *function;
    ZEND_HASH_MAP_FOREACH_PTR(functions, function) {
        const zend_op_array *found = function->type == ZEND_USER_FUNCTION ? find_in(&function->op_array, code) : NULL;
        if (found != NULL) {
            return found;
        }
    } ZEND_HASH_FOREACH_END();
    return NULL;
}

const zend_op_array *shim_code_origin(const zend_op_array *code)
{
    const zend_op_array *found = NULL;
    const zend_class_entry *class;
    for (const zend_execute_data *frame = EG(current_execute_data); frame != NULL && found == NULL; frame = frame->prev_execute_data) {
        found = frame->func != NULL && ZEND_USER_CODE(frame->func->type) ? find_in(&frame->func->op_array, code) : NULL;
    }
    if (found == NULL) {
        found = find_in_table(EG(function_table), code);
    }
    if (found == NULL) {
        ZEND_HASH_MAP_FOREACH_PTR(EG(class_table), class) {
            if (class->type == ZEND_USER_CLASS && (found = find_in_table((HashTable *)&class->function_table, code)) != NULL) {
                break;
            }
        } ZEND_HASH_FOREACH_END();
    }
    return found;
}
