/* The libraries whose waits for sockets, pipes and names can suspend a request. */
#ifndef SVC_SHIM_CALLERS_H
#define SVC_SHIM_CALLERS_H

#include <stdbool.h>

/* Looks for such libraries that have been loaded since the last call. On any thread; called after each dlopen(). */
void shim_callers_look(void);
/* Whether the code at this address belongs to such a library. On any thread; takes no lock. */
bool shim_caller_is_known(const void *address);
/* Whether the library in this file is such a library. */
bool shim_library_is_known(const char *path);

#endif
