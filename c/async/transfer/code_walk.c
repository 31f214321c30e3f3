/* Facts about a function that its opcodes reveal. */
#include "async/transfer/code_walk.h"

static uint32_t slot_of(const zend_op *opline)
{
    const uint32_t flags = ZEND_BIND_REF | ZEND_BIND_IMPLICIT | ZEND_BIND_EXPLICIT;
    return (opline->extended_value & ~flags) / (uint32_t)sizeof(Bucket);
}

/* Returns the kind of a slot. A captured variable that is never read may have lost its opcode: its value is unused then. */
shim_static_kind shim_static_kind_of(const zend_op_array *code, uint32_t index)
{
    for (uint32_t i = 0; i < code->last; i++) {
        const zend_op *opline = &code->opcodes[i];
        if (opline->opcode == ZEND_BIND_INIT_STATIC_OR_JMP && slot_of(opline) == index) {
            return SHIM_STATIC_COMPUTED;
        }
        if (opline->opcode == ZEND_BIND_STATIC && slot_of(opline) == index) {
            if ((opline->extended_value & (ZEND_BIND_IMPLICIT | ZEND_BIND_EXPLICIT)) == 0) {
                return SHIM_STATIC_DECLARED;
            }
            return (opline->extended_value & ZEND_BIND_REF) != 0 ? SHIM_STATIC_CAPTURED_REFERENCE : SHIM_STATIC_CAPTURED;
        }
    }
    return SHIM_STATIC_DECLARED;
}

bool shim_code_walk(const zend_op_array *code, shim_opcode_visitor *visit, void *context)
{
    for (uint32_t i = 0; i < code->last; i++) {
        if (!visit(code, &code->opcodes[i], context)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < code->num_dynamic_func_defs; i++) {
        if (!shim_code_walk(code->dynamic_func_defs[i], visit, context)) {
            return false;
        }
    }
    return true;
}
