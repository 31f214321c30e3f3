/* $_SERVER. */
#ifndef SVC_SHIM_SERVER_VARIABLES_H
#define SVC_SHIM_SERVER_VARIABLES_H

#include "compat.h"

/* Call after all extensions have started. */
void shim_server_variables_install(void);
void shim_server_variables_register(zval *array);
/* Adds the variables of the request, if there is one. */
void shim_server_variables_add(zend_array *array);
/* Returns the variable of the request as getenv() does, as CGI programs expect: an emalloc'ed string, or NULL. */
char *shim_server_variable(const char *name, size_t length);
/* Drops the kept array: the worker's memory is about to be freed. */
void shim_server_variables_forget(void);

#endif
