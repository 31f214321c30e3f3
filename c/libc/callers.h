/* Which libraries wait for sockets, pipes and names in a way that a request can be suspended in. */
#ifndef SVC_SHIM_CALLERS_H
#define SVC_SHIM_CALLERS_H

#include <stdbool.h>

/* Looks for those that have been loaded since. On any thread; called after each dlopen(). */
void shim_callers_look(void);
/* Whether the code at this address belongs to one of them. On any thread, takes no lock. */
bool shim_caller_is_known(const void *address);
/* Whether the library in this file is one of them. */
bool shim_library_is_known(const char *path);

#endif
