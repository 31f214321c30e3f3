/* Absolute paths, which need no working directory. */
#ifndef SVC_SHIM_PATHS_H
#define SVC_SHIM_PATHS_H

#include <stdbool.h>

/* Returns false if libphp does not export the functions. */
bool shim_paths_prepare(void);

#endif
