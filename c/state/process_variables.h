/* The environment of the process, as $_SERVER has it. */
#ifndef SVC_SHIM_PROCESS_VARIABLES_H
#define SVC_SHIM_PROCESS_VARIABLES_H

#include "compat.h"

/* Reads the environment. Once, before other threads of PHP start. */
void shim_process_variables_read(void);
/* A copy that the caller may change. Names that begin with HTTP_ are left out, because they would be taken for fields of a
 * request; so are those of variables that every request, task and boot script has. */
zend_array *shim_process_variables_copy(void);
/* How many there are. */
uint32_t shim_process_variables_count(void);
bool shim_process_variables_have(const char *name, size_t length);

#endif
