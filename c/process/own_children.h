/* The processes that requests have started. */
#ifndef SVC_SHIM_OWN_CHILDREN_H
#define SVC_SHIM_OWN_CHILDREN_H

#include "context/context.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The current request has started it. */
void shim_child_started(pid_t pid);
/* Somebody has received its status: it no longer exists. */
void shim_child_taken(pid_t pid);
/* Whether the status of this child was collected after its request had ended; told once. */
bool shim_child_collected(pid_t pid, int *status);
/* Copies the IDs of the request's children, at most `room` of them, and returns how many it has. */
size_t shim_children_of(const shim_context *owner, pid_t *pids, size_t room);

/* Nobody waits for it any more, or for any of a request's. */
void shim_child_abandon(pid_t pid);
void shim_own_children_end(shim_context *owner);
/* A child of this process has ended. */
void shim_children_collect(void);

#endif
