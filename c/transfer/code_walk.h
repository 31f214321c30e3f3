/* What the opcodes of a function say about it. */
#ifndef SVC_SHIM_CODE_WALK_H
#define SVC_SHIM_CODE_WALK_H

#include "compat.h"

/* How a slot of a function's table of static variables gets its value. */
typedef enum shim_static_kind {
    /* `static $x = 1;` */
    SHIM_STATIC_DECLARED,
    /* `static $x = f();`, by opcodes, the first time. */
    SHIM_STATIC_COMPUTED,
    /* `use ($x)`, or by an arrow function. */
    SHIM_STATIC_CAPTURED,
    /* `use (&$x)` */
    SHIM_STATIC_CAPTURED_REFERENCE,
} shim_static_kind;

shim_static_kind shim_static_kind_of(const zend_op_array *code, uint32_t index);

/* Called for each opcode of a function and of those declared in it, in an order that depends on nothing but the code.
 * Returns false to end the walk. */
typedef bool shim_opcode_visitor(const zend_op_array *code, const zend_op *opline, void *context);
/* Returns whether the walk has come to its end. */
bool shim_code_walk(const zend_op_array *code, shim_opcode_visitor *visit, void *context);

#endif
