/* The extension `svc`. */
#ifndef SVC_SHIM_EXTENSION_H
#define SVC_SHIM_EXTENSION_H

#include "compat.h"

extern zend_module_entry shim_module;
/* Set before PHP starts: superglobals are empty for scripts. */
extern bool shim_superglobals_hidden;
/* Set before PHP starts: threads may run tasks. */
extern bool shim_has_tasks;

#endif
