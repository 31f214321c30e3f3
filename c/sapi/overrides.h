/* Functions of PHP's that know more here. */
#ifndef SVC_SHIM_OVERRIDES_H
#define SVC_SHIM_OVERRIDES_H

void shim_functions_override(void);

#endif
