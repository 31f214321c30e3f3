/* Functions that open connections. */
#ifndef SVC_SHIM_CONNECTING_H
#define SVC_SHIM_CONNECTING_H

#include "compat.h"

/* The wrapper for a function of this name, in lower case; NULL if it opens nothing. */
zif_handler shim_connecting_wrapper(const char *name);

#endif
