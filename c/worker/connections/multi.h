/* Multi handles of curl, which hold easy handles of a request. */
#ifndef SVC_SHIM_MULTI_H
#define SVC_SHIM_MULTI_H

#include "compat.h"
#include "worker/connections/connection.h"

#include <stdbool.h>

/* Returns the wrapper for a function of this name; NULL if it needs none. */
zif_handler shim_multi_wrapper(const char *name);
/* Aborts the transfers in a multi handle whose request ends. If `was_interrupted`, because libcurl was interrupted in a
 * call or knows already, libcurl is not called. */
void shim_multi_empty(shim_connection *multi, bool was_interrupted);

#endif
