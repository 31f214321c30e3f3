/* Waiting for processes that a request has started. */
#ifndef SVC_SHIM_CHILDREN_WAIT_H
#define SVC_SHIM_CHILDREN_WAIT_H

#include <sys/types.h>

/* Waits like waitpid(), for `caller`. */
pid_t shim_wait_for_child(pid_t pid, int *status, int options, const void *caller);

#endif
