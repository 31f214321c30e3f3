/* Freeing structures of any depth. */
#ifndef SVC_SHIM_DEEP_H
#define SVC_SHIM_DEEP_H

#include <stdbool.h>

bool shim_deep_install(void);
/* Returns the outermost call that frees on the current stack; shim_descent_return_to() restores it after a bailout or a
 * switch. */
const void *shim_descent_here(void);
void shim_descent_return_to(const void *descent);
/* Call before PHP's heap is destroyed, with all postponed values. */
void shim_descent_forget(void);
void shim_descent_stop(void);

#endif
