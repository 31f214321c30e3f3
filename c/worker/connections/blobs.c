/* Streams of SQLite's blobs.
 *
 * PHP's struct for such a stream does not refer to its connection, so another struct wraps it. PHP's functions are called
 * with a copy of the stream that has PHP's struct: nothing has to be restored if they bail out. */
#include "compat.h"
#include "worker/connections/connections.h"

#include <stdlib.h>
#include <sys/queue.h>

typedef struct blob {
    /* PHP's struct and functions. */
    void *abstract;
    const php_stream_ops *ops;
    shim_connection *connection;
    /* The request that used the connection has ended, which closed the blob: a variable may still refer to the stream,
     * which is empty. */
    bool is_closed;
    LIST_ENTRY(blob) link;
} blob;

/* The streams of the thread. */
static __thread LIST_HEAD(, blob) all;

static ssize_t write_blob(php_stream *stream, const char *bytes, size_t count);

static bool is_followed(const php_stream *stream)
{
    return stream->ops->write == write_blob;
}

zend_object *shim_blob_connection(const php_stream *stream)
{
    return is_followed(stream) ? ((const blob *)stream->abstract)->connection->object : NULL;
}

static bool may_use(const blob *own)
{
    return !own->is_closed && (!shim_connections_have_owners() || shim_connection_try_take(own->connection));
}

static php_stream php_s(const php_stream *stream)
{
    php_stream copy = *stream;
    copy.abstract = ((const blob *)stream->abstract)->abstract;
    return copy;
}

static ssize_t write_blob(php_stream *stream, const char *bytes, size_t count)
{
    const blob *own = stream->abstract;
    php_stream copy = php_s(stream);
    const ssize_t size = may_use(own) ? own->ops->write(&copy, bytes, count) : -1;
    stream->eof = copy.eof;
    return size;
}

static ssize_t read_blob(php_stream *stream, char *bytes, size_t count)
{
    const blob *own = stream->abstract;
    php_stream copy = php_s(stream);
    const ssize_t size = may_use(own) ? own->ops->read(&copy, bytes, count) : -1;
    stream->eof = copy.eof || own->is_closed;
    return size;
}

static int seek_blob(php_stream *stream, zend_off_t offset, int whence, zend_off_t *now)
{
    const blob *own = stream->abstract;
    php_stream copy = php_s(stream);
    const int result = own->is_closed ? -1 : own->ops->seek(&copy, offset, whence, now);
    stream->eof = copy.eof;
    return result;
}

/* SQLite's blobs have no buffer to flush. */
static int flush_blob(php_stream *stream)
{
    (void)stream;
    return 0;
}

static int stat_blob(php_stream *stream, php_stream_statbuf *result)
{
    const blob *own = stream->abstract;
    php_stream copy = php_s(stream);
    return own->is_closed ? -1 : own->ops->stat(&copy, result);
}

/* Closes the blob. PHP's function uses no other member of the stream. */
static void end(blob *own)
{
    php_stream stream = {.abstract = own->abstract};
    if (!own->is_closed) {
        own->is_closed = true;
        (void)own->ops->close(&stream, 1);
    }
}

static int close_blob(php_stream *stream, int close_handle)
{
    blob *own = stream->abstract;
    (void)close_handle;
    end(own);
    LIST_REMOVE(own, link);
    shim_connection_delref(own->connection);
    free(own);
    return 0;
}

void shim_blobs_end(const shim_connection *connection)
{
    blob *own;
    LIST_FOREACH(own, &all, link) {
        if (own->connection == connection) {
            end(own);
        }
    }
}

/* One row for each of PHP's labels. None of these streams can be cast, and none has an option. */
static const php_stream_ops names[] = {
    {write_blob, read_blob, close_blob, flush_blob, "SQLite3", seek_blob, NULL, stat_blob, NULL},
    {write_blob, read_blob, close_blob, flush_blob, "PDOSQLite", seek_blob, NULL, stat_blob, NULL},
};

void shim_blob_follow(php_stream *stream, shim_connection *connection)
{
    for (size_t i = 0; i < SHIM_COUNT(names); i++) {
        blob *own = strcmp(stream->ops->label, names[i].label) == 0 ? malloc(sizeof(*own)) : NULL;
        if (own != NULL) {
            *own = (blob){
                .abstract = stream->abstract,
                .ops = stream->ops,
                .connection = shim_connection_addref(connection),
            };
            LIST_INSERT_HEAD(&all, own, link);
            stream->abstract = own;
            stream->ops = &names[i];
            return;
        }
    }
}
