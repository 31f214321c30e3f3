/* Calls of phpredis and of memcached. */
#ifndef SVC_SHIM_STORE_CALLS_H
#define SVC_SHIM_STORE_CALLS_H

#include "trace/apm/observed.h"

extern const shim_observers shim_store_calls;

#endif
