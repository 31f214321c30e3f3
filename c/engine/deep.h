/* Freeing structures of any depth. */
#ifndef SVC_SHIM_DEEP_H
#define SVC_SHIM_DEEP_H

#include <stdbool.h>

bool shim_deep_install(void);
bool shim_deep_follow_fibers(void);
/* The outermost call that frees on the current stack, and the way back to it after a jump. */
const void *shim_descent_here(void);
void shim_descent_return_to(const void *descent);
/* PHP's heap is about to go, with all that is still to be freed. */
void shim_descent_forget(void);
void shim_descent_stop(void);

#endif
