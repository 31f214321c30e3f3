/* Loading of code, which the engine can do for only one request at a time. */
#ifndef SVC_SHIM_LOADING_H
#define SVC_SHIM_LOADING_H

#include <stdbool.h>

/* Call before PHP starts. Returns false if libphp lacks a required function. */
bool shim_loading_prepare(void);
void shim_loading_install(void);
/* Whether the running request is loading code, and so cannot be suspended. */
bool shim_is_loading(void);
/* Call when a request begins: loads in progress around it do not belong to it. */
void shim_loading_begin(void);
/* Call after a bailout, which has ended the loads in progress. */
void shim_loading_forget(void);

#endif
