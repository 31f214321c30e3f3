/* Scripts whose file is missing when PHP opens it. */
#ifndef SVC_SHIM_MISSING_SCRIPT_H
#define SVC_SHIM_MISSING_SCRIPT_H

#include "compat.h"

#include <stdbool.h>

/* The file of the running script; NULL if none is running. */
extern __thread zend_file_handle *shim_script;

/* Returns false if libphp does not export the function that reports such files. */
bool shim_missing_script_prepare(void);

/* If PHP would run auto_prepend_file before it opens the script, checks the script first. Returns true if its file is
 * missing, and records that in the context. */
bool shim_script_is_missing(void);

/* Called while extensions start, before OPcache saves the function that opens files. */
void shim_missing_script_install(void);

#endif
