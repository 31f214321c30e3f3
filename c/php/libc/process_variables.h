/* The environment of the process, as $_SERVER has it. */
#ifndef SVC_SHIM_PROCESS_VARIABLES_H
#define SVC_SHIM_PROCESS_VARIABLES_H

#include "compat.h"

/* Reads the environment. Call once, before other threads of PHP start. */
void shim_process_variables_read(void);
/* Returns a copy that the caller may change. It omits names that begin with HTTP_, because they would be taken for
 * fields of a request, and the variables that every request, task and boot script sets. */
zend_array *shim_process_variables_copy(void);
/* Returns the number of variables. */
uint32_t shim_process_variables_count(void);
bool shim_process_variables_have(const char *name, size_t length);

#endif
