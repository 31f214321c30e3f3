/* Functions that open connections. */
#ifndef SVC_SHIM_CONNECTING_H
#define SVC_SHIM_CONNECTING_H

#include "compat.h"

/* Returns the wrapper for a function of this name, in lower case; NULL if it opens no connection. */
zif_handler shim_connecting_wrapper(const char *name);

#endif
