/* PHP functions with replacements that use the host's knowledge. */
#ifndef SVC_SHIM_OVERRIDES_H
#define SVC_SHIM_OVERRIDES_H

#include "compat.h"

void shim_functions_override(void);
/* Replaces the handler of a PHP function. Returns PHP's own; NULL if there is no such function. */
zif_handler shim_function_replace(const char *name, zif_handler handler);

#endif
