/* Followed classes and functions: those that take their connection first. */
#ifndef SVC_SHIM_FOLLOWING_H
#define SVC_SHIM_FOLLOWING_H

#include <stdbool.h>

/* Follows the classes and functions of the loaded extensions; called before any thread runs PHP. Without owners, requests
 * do not wait for each other, but leave connections clean. Returns false if PHP has no reserved slot left for functions. */
bool shim_connections_install(bool have_owners);
/* Frees this thread's state after its objects were destroyed. */
void shim_connections_stop(void);

#endif
