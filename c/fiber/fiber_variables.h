/* What the cycle collector is told of a script's fiber. */
#ifndef SVC_SHIM_FIBER_VARIABLES_H
#define SVC_SHIM_FIBER_VARIABLES_H

#include "compat.h"

/* Among the handlers of PHP's fibers: how the cycle collector is told of their variables. */
void shim_fiber_variables_install(zend_object_handlers *handlers);

#endif
