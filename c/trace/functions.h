/* The functions of the namespace Svc\Trace. */
#ifndef SVC_SHIM_TRACE_FUNCTIONS_H
#define SVC_SHIM_TRACE_FUNCTIONS_H

#include "compat.h"

extern const zend_function_entry shim_trace_functions[];

#endif
