/* Svc\per_request(). */
#ifndef SVC_SHIM_PER_REQUEST_H
#define SVC_SHIM_PER_REQUEST_H

#include "compat.h"

extern const zend_function_entry shim_per_request_functions[];

#endif
