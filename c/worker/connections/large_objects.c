/* Streams of large objects, which PDO opens on a connection to PostgreSQL, and of blobs, which it opens on one to SQLite.
 *
 * Reading a large object is a call on the connection. The stream is valid only in its transaction, which ends with the
 * request; that leaves another request which gets hold of the stream meanwhile. Functions with the stream as an argument
 * take the connection (streams.c). Other readers and writers must not wait: for them, the stream fails while another
 * request uses the connection. */
#include "compat.h"
#include "worker/connections/connections.h"
#include "worker/hooks/hooks.h"

#include <stdlib.h>

/* ---- blobs of SQLite ---- */

/* Streams of SQLite's blobs.
 *
 * PHP's struct for such a stream does not refer to its connection, so another struct wraps it. PHP's functions are called
 * with a copy of the stream that has PHP's struct: nothing has to be restored if they bail out. */

typedef struct blob {
    /* PHP's struct and functions. */
    void *abstract;
    const php_stream_ops *ops;
    shim_connection *connection;
    /* The request that used the connection has ended, which closed the blob: a variable may still refer to the stream,
     * which is empty. */
    bool is_closed;
    /* Links of the thread's list. */
    struct blob *next;
    struct blob *previous;
} blob;

static __thread blob *all;

static ssize_t write_blob(php_stream *stream, const char *bytes, size_t count);

static bool is_followed(const php_stream *stream)
{
    return stream->ops->write == write_blob;
}

/* Returns the connection of such a stream; NULL for other streams, or once the connection is freed. */
static zend_object *connection_of_blob(const php_stream *stream)
{
    return is_followed(stream) ? ((const blob *)stream->abstract)->connection->object : NULL;
}

static bool may_use_blob(const blob *own)
{
    return !own->is_closed && (!shim_connections_take_turns() || shim_connection_grab(own->connection));
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
    const ssize_t size = may_use_blob(own) ? own->ops->write(&copy, bytes, count) : -1;
    stream->eof = copy.eof;
    return size;
}

static ssize_t read_blob(php_stream *stream, char *bytes, size_t count)
{
    const blob *own = stream->abstract;
    php_stream copy = php_s(stream);
    const ssize_t size = may_use_blob(own) ? own->ops->read(&copy, bytes, count) : -1;
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
    if (own->next != NULL) {
        own->next->previous = own->previous;
    }
    if (own->previous != NULL) {
        own->previous->next = own->next;
    } else {
        all = own->next;
    }
    shim_connection_let_go(own->connection);
    free(own);
    return 0;
}

void shim_blobs_end(const shim_connection *connection)
{
    for (blob *own = all; own != NULL; own = own->next) {
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

/* Makes a stream that a call on the connection has just opened usable only for requests that own the connection. Ignores
 * other kinds of streams. */
static void bind_blob(php_stream *stream, shim_connection *connection)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        blob *own = strcmp(stream->ops->label, names[i].label) == 0 ? malloc(sizeof(*own)) : NULL;
        if (own != NULL) {
            *own = (blob){
                .abstract = stream->abstract,
                .ops = stream->ops,
                .connection = shim_connection_hold(connection),
                .next = all,
            };
            if (all != NULL) {
                all->previous = own;
            }
            all = own;
            stream->abstract = own;
            stream->ops = &names[i];
            return;
        }
    }
}

/* ---- large objects of PostgreSQL ---- */

static const char label[] = "pdo_pgsql lob stream";

static php_stream_ops own_ops;
static const php_stream_ops *php_ops;

zend_object *shim_large_object_connection(const php_stream *stream)
{
    if (strcmp(stream->ops->label, label) != 0) {
        return connection_of_blob(stream);
    }
    /* PDO's struct for the stream begins with that zval. */
    const zval *connection = stream->abstract;
    return connection != NULL && Z_TYPE_P(connection) == IS_OBJECT ? Z_OBJ_P(connection) : NULL;
}

bool shim_large_object_is_busy(const php_stream *stream)
{
    const zend_object *connection = shim_hook_is_on(SHIM_HOOK_NET) ? shim_large_object_connection(stream) : NULL;
    return connection != NULL && !shim_connection_is_free(shim_connection_find(connection));
}

static bool may_use(const php_stream *stream)
{
    const zend_object *connection = shim_hook_is_on(SHIM_HOOK_NET) ? shim_large_object_connection(stream) : NULL;
    return connection == NULL || shim_connection_grab(shim_connection_find(connection));
}

static ssize_t write_part(php_stream *stream, const char *bytes, size_t count)
{
    return may_use(stream) ? php_ops->write(stream, bytes, count) : -1;
}

static ssize_t read_part(php_stream *stream, char *bytes, size_t count)
{
    return may_use(stream) ? php_ops->read(stream, bytes, count) : -1;
}

static int seek_part(php_stream *stream, zend_off_t offset, int whence, zend_off_t *now)
{
    return may_use(stream) ? php_ops->seek(stream, offset, whence, now) : -1;
}

/* Without the connection, closes only the stream: the server closes the object at the end of its transaction. */
static int close_stream(php_stream *stream, int close_handle)
{
    return php_ops->close(stream, may_use(stream) ? close_handle : 0);
}

static void follow(php_stream *stream)
{
    if (stream->ops == &own_ops || strcmp(stream->ops->label, label) != 0) {
        return;
    }
    /* All threads write the same values. */
    if (__atomic_load_n(&php_ops, __ATOMIC_ACQUIRE) == NULL) {
        own_ops = *stream->ops;
        own_ops.write = write_part;
        own_ops.read = read_part;
        own_ops.seek = seek_part;
        own_ops.close = close_stream;
        __atomic_store_n(&php_ops, stream->ops, __ATOMIC_RELEASE);
    }
    stream->ops = &own_ops;
}

static void follow_blob(php_stream *stream, const zend_object *object)
{
    shim_connection *connection = shim_connection_find(object);
    if (connection != NULL) {
        bind_blob(stream, connection);
    }
}

static ZEND_NAMED_FUNCTION(call_that_opens)
{
    shim_call_on_connection(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (Z_TYPE_P(return_value) != IS_RESOURCE || Z_TYPE(EX(This)) != IS_OBJECT) {
        return;
    }
    php_stream *stream = zend_fetch_resource2(Z_RES_P(return_value), NULL, php_file_le_stream(), php_file_le_pstream());
    if (stream != NULL) {
        follow(stream);
        follow_blob(stream, Z_OBJ(EX(This)));
    }
}

zif_handler shim_large_object_wrapper(const char *name)
{
    return strcmp(name, "pgsqllobopen") == 0 || strcmp(name, "lobopen") == 0 || strcmp(name, "openblob") == 0
               ? call_that_opens
               : NULL;
}
