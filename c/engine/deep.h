/* Freeing structures of any depth. */
#ifndef SVC_SHIM_DEEP_H
#define SVC_SHIM_DEEP_H

#include <stdbool.h>

bool shim_deep_install(void);
/* The outermost call that frees on the current stack, and how it is restored after a bailout or a switch. */
const void *shim_descent_here(void);
void shim_descent_return_to(const void *descent);
/* PHP's heap is about to be destroyed, with everything that is still to be freed. */
void shim_descent_forget(void);
void shim_descent_stop(void);

#endif
