/* Facts about a function that its opcodes reveal. */
#ifndef SVC_SHIM_CODE_WALK_H
#define SVC_SHIM_CODE_WALK_H

#include "compat.h"

/* The origin of the value in a slot of a function's table of static variables. */
typedef enum shim_static_kind {
    /* `static $x = 1;` */
    SHIM_STATIC_DECLARED,
    /* `static $x = f();`: computed by opcodes, the first time. */
    SHIM_STATIC_COMPUTED,
    /* `use ($x)`, or by an arrow function. */
    SHIM_STATIC_CAPTURED,
    /* `use (&$x)` */
    SHIM_STATIC_CAPTURED_REFERENCE,
} shim_static_kind;

shim_static_kind shim_static_kind_of(const zend_op_array *code, uint32_t index);

/* Called for each opcode of a function and of those declared in it, in an order that depends only on the code. Returns
 * false to end the walk. */
typedef bool shim_opcode_visitor(const zend_op_array *code, const zend_op *opline, void *context);
/* Returns whether the walk has reached its end. */
bool shim_code_walk(const zend_op_array *code, shim_opcode_visitor *visit, void *context);

#endif
