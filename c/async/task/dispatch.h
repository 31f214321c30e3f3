/* Svc\async(). */
#ifndef SVC_SHIM_DISPATCH_H
#define SVC_SHIM_DISPATCH_H

#include "compat.h"

/* Dispatches a task that calls `closure`, and creates its object. Returns false if an exception is thrown. */
bool shim_dispatch(zval *task, zend_object *closure, zval *arguments, uint32_t count);

#endif
