/* What PHP says about the syntax of ini files. */
#ifndef SVC_SHIM_INI_ERRORS_H
#define SVC_SHIM_INI_ERRORS_H

#include <stdbool.h>

/* From here to the end, what PHP says about the syntax of ini files becomes records of the log. Returns false if there is no
 * memory. */
bool shim_ini_errors_begin(void);
void shim_ini_errors_end(void);

#endif
