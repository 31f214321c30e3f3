/* OPcache's lock file. */
#ifndef SVC_SHIM_LOCK_H
#define SVC_SHIM_LOCK_H

#include <stdbool.h>

/* Whether fcntl() has been answered: it was about a lock that means something to OPcache alone. */
bool shim_opcache_answers(int descriptor, int command, void *argument);

#endif
