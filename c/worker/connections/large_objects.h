/* Streams of large objects: those that PDO opens on a connection to PostgreSQL, and blobs of SQLite. */
#ifndef SVC_SHIM_LARGE_OBJECTS_H
#define SVC_SHIM_LARGE_OBJECTS_H

#include "compat.h"

#include <stdbool.h>

/* Returns the wrapper for a function of this name, in lower case; NULL if it opens no such stream. */
zif_handler shim_large_object_wrapper(const char *name);
/* Returns the connection of such a stream; NULL for other streams. */
zend_object *shim_large_object_connection(const php_stream *stream);
/* Whether it is such a stream, and another request uses its connection. */
bool shim_large_object_is_busy(const php_stream *stream);

#endif
