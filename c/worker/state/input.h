/* php://input, bound to the request that has opened it. */
#ifndef SVC_SHIM_INPUT_H
#define SVC_SHIM_INPUT_H

#include "compat.h"

void shim_input_install(void);
/* The request of this body has ended: detaches the streams that the request has opened, which read nothing from now on.
 * Runs no script code. */
void shim_input_empty(const php_stream *body);
/* Closes the emptied streams, as fclose() would. Filters may run script code. */
void shim_input_close(void);

#endif
