/* The environment of a request. */
#ifndef SVC_SHIM_ENVIRONMENT_H
#define SVC_SHIM_ENVIRONMENT_H

/* A variable that the request has set on top of the process's environment; a NULL value means that it has unset the
 * variable. */
void shim_environment_each(void (*visit)(const char *name, size_t name_length, const char *value, void *data), void *data);
/* The environment for a child process: one block, to be freed. NULL stands for the process's own. Returns false if out
 * of memory. */
bool shim_environment_merge(char ***out);
/* In a forked child: makes the request's environment the process's. */
void shim_environment_become(void);
/* Adds a variable for the calling thread, unless the process has it. */
void shim_environment_lend(const char *name, const char *value);
void shim_environment_clear(void);
void shim_environment_capture(void);
void shim_environment_release(void);
/* Saves what the request has set, and restores it. */
void *shim_environment_take(void);
void shim_environment_give(void *own);

#endif
