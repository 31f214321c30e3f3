/* Functions in the memory that OPcache shares between threads. */
#ifndef SVC_SHIM_SHARED_CODE_H
#define SVC_SHIM_SHARED_CODE_H

#include "compat.h"

/* Returns the function in OPcache's memory, if `code` is a copy of such a function's struct, as contained in closures;
 * otherwise NULL. It is never changed or freed before OPcache restarts, and any thread may make closures from it. */
zend_op_array *shim_shared_code(const zend_op_array *code);
/* Returns the number of map pointers by which functions in OPcache's memory are addressed (CG(map_ptr_last)), and makes
 * room for as many in another thread. */
size_t shim_shared_map_ptrs(void);
void shim_shared_map_ptrs_extend(size_t last);

#endif
