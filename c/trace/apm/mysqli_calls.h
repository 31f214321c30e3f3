/* Calls of mysqli. */
#ifndef SVC_SHIM_MYSQLI_CALLS_H
#define SVC_SHIM_MYSQLI_CALLS_H

#include "trace/apm/observed.h"

extern const shim_observers shim_mysqli_calls;
/* Frees this thread's records; call after its objects were destroyed. */
void shim_mysqli_calls_forget(void);

#endif
