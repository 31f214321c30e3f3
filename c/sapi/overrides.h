/* PHP functions with replacements that know more. */
#ifndef SVC_SHIM_OVERRIDES_H
#define SVC_SHIM_OVERRIDES_H

#include "compat.h"

void shim_functions_override(void);
/* Gives a function of PHP another handler. Returns PHP's own; NULL if there is no such function. */
zif_handler shim_function_replace(const char *name, zif_handler handler);

#endif
