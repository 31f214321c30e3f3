/* PHP functions with replacements that know more. */
#ifndef SVC_SHIM_OVERRIDES_H
#define SVC_SHIM_OVERRIDES_H

void shim_functions_override(void);

#endif
