/* Calls of pgsql. */
#ifndef SVC_SHIM_PGSQL_CALLS_H
#define SVC_SHIM_PGSQL_CALLS_H

#include "trace/apm/observed.h"

extern const shim_observers shim_pgsql_calls;
/* Looks up libpq's functions for connections and results. */
void shim_pgsql_calls_install(void);

#endif
