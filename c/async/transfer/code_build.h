/* Makes a function from its image. */
#ifndef SVC_SHIM_CODE_BUILD_H
#define SVC_SHIM_CODE_BUILD_H

#include "compat.h"
#include "shim.h"

/* Returns the function and those declared in it, one after the other and followed by their run-time caches, in one
 * allocation; the first is the function itself. The values that they point to are reference-counted, as for all
 * functions outside OPcache, and are freed by destroy_op_array(). The allocation outlives all closures and functions
 * made from it. */
zend_op_array *shim_code_build(shim_view image, zend_class_entry *scope);
/* Returns the number of functions in an image. */
uint32_t shim_code_functions(shim_view image);

#endif
