/* Streams of large objects: those that PDO opens on a connection to PostgreSQL, and blobs of SQLite. */
#ifndef SVC_SHIM_LARGE_OBJECTS_H
#define SVC_SHIM_LARGE_OBJECTS_H

#include "compat.h"

#include <stdbool.h>

/* The wrapper for a function of this name, in lower case; NULL if it opens none. */
zif_handler shim_large_object_wrapper(const char *name);
/* The connection of such a stream; NULL if it is another one. */
zend_object *shim_large_object_connection(const php_stream *stream);
/* Whether the stream is one whose connection another request uses. */
bool shim_large_object_is_busy(const php_stream *stream);

#endif
