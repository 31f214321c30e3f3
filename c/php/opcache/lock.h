/* OPcache's lock file. */
#ifndef SVC_SHIM_LOCK_H
#define SVC_SHIM_LOCK_H

#include <stdbool.h>

/* Whether fcntl() has been answered, because the lock matters to OPcache only. */
bool shim_opcache_answers(int descriptor, int command, void *argument);

#endif
