/* Streams of large objects, which PDO opens on a connection to PostgreSQL; blobs.c has those of SQLite.
 *
 * Reading such a stream is a call on the connection. The stream is valid only in its transaction, which ends with the
 * request; that leaves another request which gets hold of the stream meanwhile. Functions with the stream as an argument
 * take the connection (streams.c). Other readers and writers must not wait: for them, the stream fails while another
 * request uses the connection. */
#include "compat.h"
#include "worker/connections/connections.h"
#include "worker/hooks/hooks.h"

static const char label[] = "pdo_pgsql lob stream";

static php_stream_ops own_ops;
static const php_stream_ops *php_ops;

zend_object *shim_large_object_connection(const php_stream *stream)
{
    if (strcmp(stream->ops->label, label) != 0) {
        return shim_blob_connection(stream);
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
    return connection == NULL || shim_connection_try_take(shim_connection_find(connection));
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
        shim_blob_follow(stream, connection);
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
