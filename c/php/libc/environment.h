/* The environment of a request. */
#ifndef SVC_SHIM_ENVIRONMENT_H
#define SVC_SHIM_ENVIRONMENT_H

/* Visits the variables that the request has set on top of the process's environment; a NULL value means that it has
 * unset the variable. */
void shim_environment_each(void (*visit)(const char *name, size_t name_length, const char *value, void *data), void *data);
/* Builds the environment for a child process: one block, which the caller frees. NULL stands for the process's own.
 * Returns false if out of memory. */
bool shim_environment_merge(char ***out);
/* Call in a forked child: makes the request's variables part of the process's environment. */
void shim_environment_become(void);
/* Adds a variable for the calling thread, unless the process has it. */
void shim_environment_lend(const char *name, const char *value);
void shim_environment_clear(void);
void shim_environment_capture(void);
void shim_environment_release(void);
/* Saves the request's variables, and restores them. */
void *shim_environment_take(void);
void shim_environment_give(void *own);

#endif
