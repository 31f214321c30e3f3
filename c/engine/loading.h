/* Loading of code, which the engine does for one request at a time. */
#ifndef SVC_SHIM_LOADING_H
#define SVC_SHIM_LOADING_H

#include <stdbool.h>

/* Before PHP starts. False: libphp does not have what is needed. */
bool shim_loading_prepare(void);
void shim_loading_install(void);
/* Whether the running request is inside of a load of code, where it cannot be suspended. */
bool shim_is_loading(void);
/* A request begins: what is being loaded around it is not its own. */
void shim_loading_begin(void);
/* What was being loaded has ended by a jump. */
void shim_loading_forget(void);

#endif
