/* The functions of the namespace Svc\Cache. */
#ifndef SVC_SHIM_CACHE_FUNCTIONS_H
#define SVC_SHIM_CACHE_FUNCTIONS_H

#include "compat.h"

extern const zend_function_entry shim_cache_functions[];

#endif
