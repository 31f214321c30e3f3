/* The memory limit of a worker's requests. */
#ifndef SVC_SHIM_MEMORY_LIMIT_H
#define SVC_SHIM_MEMORY_LIMIT_H

#include <stddef.h>

/* Makes the heap enforce the current memory limit, plus the memory that bailouts have left allocated. A heap that is
 * already larger does not grow. */
void shim_memory_limit_apply(void);
void shim_memory_limit_lift(void);
/* Raises the limit by this many bytes, until it is applied again. */
void shim_memory_limit_extend(size_t bytes);
/* Call after a bailout: other requests, and the code that ends this one, may need memory beyond the memory that the
 * bailout has left allocated. */
void shim_memory_limit_after_jump(void);
/* Call when a worker boots: there is no memory left behind. */
void shim_memory_limit_forget(void);

#endif
