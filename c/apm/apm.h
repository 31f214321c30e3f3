/* The plugin `apm`: calls of databases, stores and HTTP servers become spans. */
#ifndef SVC_SHIM_APM_H
#define SVC_SHIM_APM_H

#include "compat.h"
#include "shim.h"

#include <stdbool.h>

/* Once PHP has started, and everything that replaces handlers of functions is in place; `place` is where functions have
 * room. Returns false if there is no memory. */
bool shim_apm_install(const shim_options *options, int place);
/* The thread's objects are no more. */
void shim_apm_forget(void);

#endif
