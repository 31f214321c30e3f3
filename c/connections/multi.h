/* Multi handles of curl, which hold easy handles of a request. */
#ifndef SVC_SHIM_MULTI_H
#define SVC_SHIM_MULTI_H

#include "compat.h"
#include "connections/connection.h"

#include <stdbool.h>

/* The wrapper for a function of this name; NULL if it does nothing special. */
zif_handler shim_multi_wrapper(const char *name);
/* The request that the multi handle belongs to ends: aborts what is in it. If libcurl `was_interrupted` in the middle of a
 * call, or has been told already, it is not asked. */
void shim_multi_empty(shim_connection *multi, bool was_interrupted);

#endif
