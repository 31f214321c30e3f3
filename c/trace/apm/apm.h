/* The plugin `apm`: calls of databases, stores and HTTP servers become spans. */
#ifndef SVC_SHIM_APM_H
#define SVC_SHIM_APM_H

#include "compat.h"
#include "shim.h"

#include <stdbool.h>

/* Call after PHP has started and all other handlers of functions have been replaced; `place` is the slot for extensions
 * in functions. Returns false if out of memory. */
bool shim_apm_install(const shim_options *options, int place);
/* Frees this thread's records; call after its objects were destroyed. */
void shim_apm_forget(void);

#endif
