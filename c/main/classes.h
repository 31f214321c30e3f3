/* The classes and functions of the namespace Svc. */
#ifndef SVC_SHIM_CLASSES_H
#define SVC_SHIM_CLASSES_H

#include "compat.h"

void shim_classes_register(zend_module_entry *module);
extern const zend_function_entry shim_worker_functions[];

#endif
