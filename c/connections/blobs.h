/* Streams of SQLite's blobs. */
#ifndef SVC_SHIM_BLOBS_H
#define SVC_SHIM_BLOBS_H

#include "compat.h"
#include "connections/connection.h"

#include <stdbool.h>

/* The stream, which a call on the connection has just opened, is read and written by requests that have the connection.
 * Does nothing if it is another kind of stream. */
void shim_blob_follow(php_stream *stream, shim_connection *connection);
/* Closes those of the connection. Their streams are empty from now on. */
void shim_blobs_end(const shim_connection *connection);
/* The connection of such a stream; NULL if it is another one, or the connection is no more. */
zend_object *shim_blob_connection(const php_stream *stream);

#endif
