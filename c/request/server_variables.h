/* $_SERVER. */
#ifndef SVC_SHIM_SERVER_VARIABLES_H
#define SVC_SHIM_SERVER_VARIABLES_H

#include "compat.h"

/* After all extensions have started. */
void shim_server_variables_install(void);
void shim_server_variables_register(zval *array);
/* Adds the variables of the request, if there is one. */
void shim_server_variables_add(zend_array *array);
/* getenv() for a variable of the request, as CGI programs expect. Returns an emalloc'ed string or NULL. */
char *shim_server_variable(const char *name, size_t length);
/* The worker's memory is about to be freed. */
void shim_server_variables_forget(void);

#endif
