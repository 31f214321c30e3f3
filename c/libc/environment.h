/* The environment of a request. */
#ifndef SVC_SHIM_ENVIRONMENT_H
#define SVC_SHIM_ENVIRONMENT_H

/* What the request has put on top of the process's environment; a value of NULL: it has unset it. */
void shim_environment_each(void (*visit)(const char *name, size_t name_length, const char *value, void *data), void *data);
/* The environment for a program; one block, to be freed. NULL: the process's. False: no memory. */
bool shim_environment_merge(char ***out);
/* Makes the request's environment the process's, in a child. */
void shim_environment_become(void);
void shim_environment_clear(void);
void shim_environment_capture(void);
void shim_environment_release(void);
/* What the request has put, out of its place and back. */
void *shim_environment_take(void);
void shim_environment_give(void *own);

#endif
