/* php://input, bound to the request that has opened it.
 *
 * PHP's stream points to the stream of the body, which ends with its request, and reads missing bytes from the request
 * that is running at that moment. In a worker, scripts keep such streams for longer than a request (a static variable,
 * a cycle), and other requests read them. PHP's wrapper is therefore replaced by a copy with another opener, whose
 * streams get operations that know the owner of their body.
 *
 * Invariant. A stream points to a live body, or to none: it is emptied before its body is freed. A stream that values
 * of PHP may still reference is never released: a stream that a script can reach is closed as fclose() would close it,
 * and its resource remains; a stream of PHP's own code (SplFileObject, XMLReader) stays open, and is at its end. */
#include "compat.h"
#include "worker/state/input.h"

#include <ext/standard/php_fopen_wrappers.h>

/* Copied from php_fopen_wrapper.c, which has no header. */
typedef struct input {
    php_stream *body;
    zend_off_t position;
} input;

/* PHP's own operations, which are not exported: set when the first stream is opened. */
static const php_stream_ops *php_input;

static bool is_ours(const php_stream *stream)
{
    const input *own = stream->abstract;
    return own->body != NULL && own->body == SG(request_info).request_body;
}

static ssize_t read_input(php_stream *stream, char *buffer, size_t size)
{
    if (is_ours(stream)) {
        return __atomic_load_n(&php_input, __ATOMIC_RELAXED)->read(stream, buffer, size);
    }
    stream->eof = 1;
    php_error_docref(NULL, E_WARNING, "php://input was opened by another request; open it in the request that reads it");
    return 0;
}

static int seek_input(php_stream *stream, zend_off_t offset, int whence, zend_off_t *position)
{
    return is_ours(stream) ? __atomic_load_n(&php_input, __ATOMIC_RELAXED)->seek(stream, offset, whence, position) : -1;
}

static ssize_t write_input(php_stream *stream, const char *bytes, size_t size)
{
    return __atomic_load_n(&php_input, __ATOMIC_RELAXED)->write(stream, bytes, size);
}

static int flush_input(php_stream *stream)
{
    return __atomic_load_n(&php_input, __ATOMIC_RELAXED)->flush(stream);
}

static int close_input(php_stream *stream, int closes_handle)
{
    return __atomic_load_n(&php_input, __ATOMIC_RELAXED)->close(stream, closes_handle);
}

static const php_stream_ops operations = {
    .write = write_input,
    .read = read_input,
    .close = close_input,
    .flush = flush_input,
    .label = "Input",
    .seek = seek_input,
};

/* ---- opening ---- */

static php_stream_wrapper_ops opening;
static php_stream_wrapper wrapper;

static php_stream *open_php(php_stream_wrapper *own, const char *url, const char *mode, int options, zend_string **opened,
                            php_stream_context *context STREAMS_DC)
{
    php_stream *stream =
        php_stream_php_wrapper.wops->stream_opener(own, url, mode, options, opened, context STREAMS_REL_CC);
    if (stream != NULL && stream->ops != &operations && strcmp(stream->ops->label, operations.label) == 0) {
        __atomic_store_n(&php_input, stream->ops, __ATOMIC_RELAXED);
        stream->ops = &operations;
    }
    return stream;
}

void shim_input_install(void)
{
    opening = *php_stream_php_wrapper.wops;
    opening.stream_opener = open_php;
    wrapper = php_stream_php_wrapper;
    wrapper.wops = &opening;
    /* Replaces the entry in place, so that stream_get_wrappers() lists it in the same position. */
    zval *own = zend_hash_str_find(php_stream_get_url_stream_wrappers_hash_global(), ZEND_STRL("php"));
    if (own != NULL && Z_PTR_P(own) == &php_stream_php_wrapper) {
        Z_PTR_P(own) = &wrapper;
    }
}

/* ---- the end of a request ---- */

/* Returns the stream of a resource if it is a php://input; NULL otherwise. */
static php_stream *input_of(const zend_resource *resource)
{
    php_stream *stream = resource->type == php_file_le_stream() ? resource->ptr : NULL;
    return stream != NULL && stream->ops == &operations && stream->abstract != NULL ? stream : NULL;
}

void shim_input_empty(const php_stream *body)
{
    zend_resource *resource;
    ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
        php_stream *stream = input_of(resource);
        input *own = stream != NULL ? stream->abstract : NULL;
        if (own != NULL && own->body == body) {
            own->body = NULL;
            /* Drops the bytes that PHP has read ahead. */
            stream->readpos = stream->writepos = 0;
        }
    } ZEND_HASH_FOREACH_END();
}

/* Whether a script may call fclose() with the stream; all other users of the stream then handle its end. */
static bool is_a_scripts(const php_stream *stream)
{
    return stream->__exposed && stream->in_free == 0 && stream->enclosing_stream == NULL &&
           (stream->flags & PHP_STREAM_FLAG_NO_FCLOSE) == 0;
}

void shim_input_close(void)
{
    /* Closing a filter may open other streams, and move the list. */
    for (uint32_t i = 0; i < EG(regular_list).nNumUsed; i++) {
        const zval *entry = ZEND_HASH_ELEMENT(&EG(regular_list), i);
        php_stream *stream = Z_TYPE_P(entry) != IS_UNDEF ? input_of(Z_PTR_P(entry)) : NULL;
        if (stream != NULL && ((const input *)stream->abstract)->body == NULL && is_a_scripts(stream)) {
            php_stream_free(stream, PHP_STREAM_FREE_CLOSE | PHP_STREAM_FREE_KEEP_RSRC);
        }
    }
}
