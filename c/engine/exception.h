/* Exceptions as the engine sees them. */
#ifndef SVC_SHIM_EXCEPTION_H
#define SVC_SHIM_EXCEPTION_H

#include "compat.h"

#include <stdbool.h>

/* What Exception or Error declare under this name, as it is: reading it in the way of the engine calls `__isset` and
 * `__get` if a script has unset it. */
zval *shim_exception_member(zend_object *exception, zend_string *name);
/* The exception before this one; NULL if there is none. */
zend_object *shim_exception_previous(zend_object *exception);
/* How many exceptions the chain consists of that begins with this one. Each counts once, also if a script has closed the
 * chain to a circle. */
size_t shim_exception_chain(zend_object *exception);
/* Before PHP starts. */
bool shim_exceptions_prepare(void);

#endif
