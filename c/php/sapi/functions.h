/* The functions that svc provides to scripts. */
#ifndef SVC_SHIM_FUNCTIONS_H
#define SVC_SHIM_FUNCTIONS_H

#include "compat.h"

extern const zend_function_entry shim_functions[];

#endif
