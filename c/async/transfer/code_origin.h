/* The function that a closure of this thread was made from. */
#ifndef SVC_SHIM_CODE_ORIGIN_H
#define SVC_SHIM_CODE_ORIGIN_H

#include "compat.h"

/* Returns the function that a closure contains a copy of, with the declared values of its static variables. NULL if it
 * is gone: a file that has run to its end is not kept, but its closures are. */
const zend_op_array *shim_code_origin(const zend_op_array *code);

#endif
