/* Streams of SQLite's blobs. */
#ifndef SVC_SHIM_BLOBS_H
#define SVC_SHIM_BLOBS_H

#include "compat.h"
#include "worker/connections/connection.h"

#include <stdbool.h>

/* Makes a stream that a call on the connection has just opened usable only for requests that own the connection. Ignores
 * other kinds of streams. */
void shim_blob_follow(php_stream *stream, shim_connection *connection);
/* Closes the connection's blobs. Their streams are empty from now on. */
void shim_blobs_end(const shim_connection *connection);
/* Returns the connection of such a stream; NULL for other streams, or once the connection is freed. */
zend_object *shim_blob_connection(const php_stream *stream);

#endif
