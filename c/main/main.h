/* The classes of the namespace Svc. */
#ifndef SVC_MAIN_H
#define SVC_MAIN_H

#include "compat.h"

void shim_classes_register(zend_module_entry *module);
extern const zend_function_entry shim_worker_functions[];

#endif
