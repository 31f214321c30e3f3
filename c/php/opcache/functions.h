/* OPcache's own functions, whether scripts may call them or not. */
#ifndef SVC_SHIM_OPCACHE_FUNCTIONS_H
#define SVC_SHIM_OPCACHE_FUNCTIONS_H

#include "compat.h"

/* Returns the handler of the function; NULL if there is none. */
zif_handler shim_opcache_function(const char *name);

#endif
