/* Which classes and functions are followed. */
#ifndef SVC_SHIM_FOLLOWING_H
#define SVC_SHIM_FOLLOWING_H

#include <stdbool.h>

/* Follows what the extensions offer that PHP has loaded; before any thread runs PHP. Without owners, requests do not wait
 * for each other, and leave connections clean all the same. Returns false if PHP has no room for what is kept about
 * functions. */
bool shim_connections_install(bool have_owners);
/* The thread's objects are no more. */
void shim_connections_stop(void);

#endif
