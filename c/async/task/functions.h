/* The functions and methods of the async pool. */
#ifndef SVC_SHIM_TASK_FUNCTIONS_H
#define SVC_SHIM_TASK_FUNCTIONS_H

#include "compat.h"

extern const zend_function_entry shim_task_functions[];
extern const zend_function_entry shim_task_methods[];

#endif
