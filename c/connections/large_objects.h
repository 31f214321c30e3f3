/* Streams of large objects, which PDO opens on a connection to PostgreSQL. */
#ifndef SVC_SHIM_LARGE_OBJECTS_H
#define SVC_SHIM_LARGE_OBJECTS_H

#include "compat.h"

/* The wrapper for a function of this name, in lower case; NULL if it opens none. */
zif_handler shim_large_object_wrapper(const char *name);

#endif
