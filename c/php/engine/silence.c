/* Errors that are silenced: by the operator @, or by svc.
 *
 * ZEND_BEGIN_SILENCE reduces error_reporting to the fatal errors, which is also what a script may have set itself. Only
 * the ranges of opcodes in which a silence is live distinguish the two. */
#include "compat.h"
#include "php/engine/engine.h"

static bool is_in_silence(const zend_op_array *code, const zend_op *opline)
{
    const uint32_t at = (uint32_t)(opline - code->opcodes);
    for (int i = 0; i < code->last_live_range; i++) {
        const zend_live_range *range = &code->live_range[i];
        if ((range->var & ZEND_LIVE_MASK) == ZEND_LIVE_SILENCE && range->start <= at && at < range->end) {
            return true;
        }
    }
    return false;
}

bool shim_is_silenced(int type)
{
    if ((type & E_FATAL_ERRORS) != 0) {
        return false;
    }
    if (EG(error_reporting) == SHIM_REPORTS_NOTHING) {
        return true;
    }
    if (!E_HAS_ONLY_FATAL_ERRORS(EG(error_reporting))) {
        return false;
    }
    for (const zend_execute_data *frame = EG(current_execute_data); frame != NULL; frame = frame->prev_execute_data) {
        if (frame->func != NULL && ZEND_USER_CODE(frame->func->type) && frame->opline != NULL
            && is_in_silence(&frame->func->op_array, frame->opline)) {
            return true;
        }
    }
    return false;
}
