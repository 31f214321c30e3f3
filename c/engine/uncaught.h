/* Exceptions that a script has not caught. */
#ifndef SVC_SHIM_UNCAUGHT_H
#define SVC_SHIM_UNCAUGHT_H

#include "compat.h"

/* Called before PHP reports the exception; must not run a script's code. NULL if nobody wants to know. */
extern void (*shim_on_uncaught)(zend_object *exception);

/* Whether somebody was told of the exception that PHP is reporting now; asked once for each. */
bool shim_uncaught_was_told(void);
/* Returns false if libphp does not export the functions. */
bool shim_uncaught_prepare(void);

#endif
