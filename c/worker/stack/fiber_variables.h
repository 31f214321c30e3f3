/* The variables of a script's fiber, as reported to the cycle collector. */
#ifndef SVC_SHIM_FIBER_VARIABLES_H
#define SVC_SHIM_FIBER_VARIABLES_H

#include "compat.h"

/* Replaces the handler of PHP's fibers that reports their variables to the cycle collector. */
void shim_fiber_variables_install(zend_object_handlers *handlers);

#endif
