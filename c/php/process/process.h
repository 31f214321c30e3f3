/* Processes that a request starts or forks. */
#ifndef SVC_PHP_PROCESS_H
#define SVC_PHP_PROCESS_H

#include "php/context/context.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* ---- Processes that a request forks (children.c) ---- */

void shim_children_install(void);
/* Call after the script has ended. In a child, ends the process with the script's exit status; elsewhere does nothing. */
void shim_child_end(void);

/* ---- Waiting for processes that a request has started (children_wait.c) ---- */

/* Waits like waitpid(), for `caller`. */
pid_t shim_wait_for_child(pid_t pid, int *status, int options, const void *caller);

/* ---- The processes that requests have started (own_children.c) ---- */

/* Call after the current request has started the process. */
void shim_child_started(pid_t pid);
/* Call after its status has been received: it no longer exists. */
void shim_child_taken(pid_t pid);
/* Whether the status of this child was collected after its request had ended; returns it once. */
bool shim_child_collected(pid_t pid, int *status);
/* Copies the IDs of the request's children, at most `room` of them, and returns their number. */
size_t shim_children_of(const shim_context *owner, pid_t *pids, size_t room);

/* Leaves a child, or all children of a request, to the server. */
void shim_child_abandon(pid_t pid);
void shim_own_children_end(shim_context *owner);
/* Call after a child of this process has ended. */
void shim_children_collect(void);

/* ---- Programs that a request starts (programs.c) ---- */

void shim_programs_install(void);

#endif
