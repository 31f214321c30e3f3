/* Scripts whose file is gone by the time PHP opens it. */
#ifndef SVC_SHIM_MISSING_SCRIPT_H
#define SVC_SHIM_MISSING_SCRIPT_H

#include <stdbool.h>

/* Returns false if libphp does not export the function that reports such files. */
bool shim_missing_script_prepare(void);

/* Called while extensions start: OPcache keeps the function that opens files from then on. */
void shim_missing_script_install(void);

#endif
