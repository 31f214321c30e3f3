/* PHP's messages about the syntax of ini files. */
#ifndef SVC_SHIM_INI_ERRORS_H
#define SVC_SHIM_INI_ERRORS_H

#include <stdbool.h>

/* Until the end, turns PHP's messages about the syntax of ini files into log records. Returns false if out of memory. */
bool shim_ini_errors_begin(void);
void shim_ini_errors_end(void);

#endif
