/* The memory limit of a worker's requests. */
#ifndef SVC_SHIM_MEMORY_LIMIT_H
#define SVC_SHIM_MEMORY_LIMIT_H

#include <stddef.h>

/* The heap obeys the memory limit that is in place, and what jumps have left allocated comes on top. A heap that is larger
 * already does not grow. */
void shim_memory_limit_apply(void);
void shim_memory_limit_lift(void);
/* So many bytes more, until it is applied again. */
void shim_memory_limit_extend(size_t bytes);
/* Neighbours, and what ends this request, may need memory beyond what the jump has left allocated. */
void shim_memory_limit_after_jump(void);
/* A worker boots: nothing has been left behind. */
void shim_memory_limit_forget(void);

#endif
