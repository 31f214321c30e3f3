/* Loading of code, which the engine can do for only one request at a time. */
#ifndef SVC_SHIM_LOADING_H
#define SVC_SHIM_LOADING_H

#include <stdbool.h>

/* Before PHP starts. Returns false if libphp lacks what is needed. */
bool shim_loading_prepare(void);
void shim_loading_install(void);
/* Whether the running request is loading code, and so cannot be suspended. */
bool shim_is_loading(void);
/* A request begins; loads in progress around it are not its own. */
void shim_loading_begin(void);
/* The loads in progress have ended by a bailout. */
void shim_loading_forget(void);

#endif
