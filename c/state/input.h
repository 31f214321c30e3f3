/* php://input, which belongs to the request that has opened it. */
#ifndef SVC_SHIM_INPUT_H
#define SVC_SHIM_INPUT_H

#include "compat.h"

void shim_input_install(void);
/* The request is over whose body this is: what it has opened reads nothing from now on. Runs no script's code. */
void shim_input_empty(const php_stream *body);
/* Closes those that were emptied, as fclose() would. Filters may run a script's code. */
void shim_input_close(void);

#endif
