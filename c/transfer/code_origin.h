/* What a closure of this thread was made from. */
#ifndef SVC_SHIM_CODE_ORIGIN_H
#define SVC_SHIM_CODE_ORIGIN_H

#include "compat.h"

/* The function that a closure contains a copy of, with its static variables as they were declared. NULL if it is gone: a
 * file that has been run to its end is not kept, but the closures that it made are. */
const zend_op_array *shim_code_origin(const zend_op_array *code);

#endif
