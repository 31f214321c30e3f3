/* Exceptions as the engine sees them. */
#ifndef SVC_SHIM_EXCEPTION_H
#define SVC_SHIM_EXCEPTION_H

#include "compat.h"

#include <stdbool.h>

/* Returns the property that Exception or Error declares under this name, without side effects: an ordinary read calls
 * `__isset` and `__get` if a script has unset it. */
zval *shim_exception_member(zend_object *exception, zend_string *name);
/* Returns the previous exception; NULL if there is none. */
zend_object *shim_exception_previous(zend_object *exception);
/* Returns the number of exceptions in the chain that begins with this one. Each counts once, even if a script has
 * closed the chain to a circle. */
size_t shim_exception_chain(zend_object *exception);
/* Call before PHP starts. */
bool shim_exceptions_prepare(void);

#endif
