/* Exceptions that a script has not caught. */
#ifndef SVC_SHIM_UNCAUGHT_H
#define SVC_SHIM_UNCAUGHT_H

#include "compat.h"

/* Called before PHP reports the exception; must not run script code. NULL if it is unused. */
extern void (*shim_on_uncaught)(zend_object *exception);

/* Whether shim_on_uncaught was called for the exception that PHP is reporting now. Clears the record: call once per
 * report. */
bool shim_uncaught_was_told(void);
/* Returns false if libphp does not export the functions. */
bool shim_uncaught_prepare(void);

#endif
