/* PHP's streams of `http:` and `https:`: a span from the request to the header of the response, and the trace context
 * among the header fields.
 *
 * PHP's wrapper is replaced by a copy with another opener, which all code that opens such a stream calls (fopen,
 * file_get_contents, copy, an XML parser). The wrapper takes its header fields from the context, which is replaced by a
 * copy with additional fields for the duration of the call. */
#include "compat.h"
#include "php/context/context.h"
#include "trace/apm/apm.h"
#include "php/engine/engine.h"

#include <ext/standard/php_fopen_wrappers.h>
#include <ext/standard/php_string.h>
#include <zend_smart_str.h>

static bool passes_on;
static php_stream_wrapper_ops operations;
static php_stream_wrapper wrapper;

/* ---- the header fields ---- */

static bool has_line(const zend_string *text, bool (*is_it)(const char *line, size_t length))
{
    const char *line = ZSTR_VAL(text), *end = line + ZSTR_LEN(text);
    while (line < end) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        next = next != NULL ? next + 1 : end;
        if (is_it(line, (size_t)(next - line))) {
            return true;
        }
        line = next;
    }
    return false;
}

static void put_field(smart_str *fields, const char *name, shim_view value)
{
    smart_str_appends(fields, name);
    smart_str_appendl(fields, ": ", 2);
    smart_str_appendl(fields, value.bytes, value.length);
    smart_str_appendl(fields, "\r\n", 2);
}

/* Returns the fields of the option in PHP's form: it joins the lines of a list, skips references and values that are
 * not strings, and trims white space around the whole. A further field in front does not change the others. */
static zend_string *fields_of(const zval *header)
{
    smart_str fields = {0};
    const zval *line;
    if (header != NULL && Z_TYPE_P(header) == IS_STRING) {
        smart_str_append(&fields, Z_STR_P(header));
    } else if (header != NULL && Z_TYPE_P(header) == IS_ARRAY) {
        ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(header), line) {
            if (Z_TYPE_P(line) == IS_STRING) {
                smart_str_append(&fields, Z_STR_P(line));
                smart_str_appendl(&fields, "\r\n", 2);
            }
        } ZEND_HASH_FOREACH_END();
    }
    if (fields.s == NULL) {
        return ZSTR_EMPTY_ALLOC();
    }
    smart_str_0(&fields);
    zend_string *trimmed = php_trim(fields.s, NULL, 0, 3);
    smart_str_free(&fields);
    return trimmed;
}

/* ---- the context of a call ---- */

/* A copy of the script's context with additional fields. Another fiber or request that opens a stream with the script's
 * own context meanwhile is not affected. It has no number among PHP's resources, which scripts would notice. */
typedef struct own_context {
    php_stream_context context;
    zend_resource resource;
    /* NULL if the default context does not exist yet, and the stream is opened without one. */
    php_stream_context *original;
    /* The original's values when the call began. */
    const php_stream_notifier *notifier;
    zval tls;
} own_context;

static zval *tls_of(const php_stream_context *context)
{
    return zend_hash_str_find(Z_ARRVAL(context->options), "ssl", sizeof("ssl") - 1);
}

static own_context *copy_context(php_stream_context *original, zval *header)
{
    own_context *own = ecalloc(1, sizeof(*own));
    if (original == NULL) {
        array_init(&own->context.options);
    } else {
        zval *tls = tls_of(original);
        own->original = original;
        own->notifier = original->notifier;
        if (tls != NULL) {
            ZVAL_COPY(&own->tls, tls);
        }
        ZVAL_COPY(&own->context.options, &original->options);
        own->context.notifier = shim_notifier_copy(original->notifier);
    }
    own->resource.type = php_le_stream_context();
    own->resource.ptr = &own->context;
    GC_SET_REFCOUNT(&own->resource, 1);
    GC_TYPE_INFO(&own->resource) = GC_RESOURCE;
    own->context.res = &own->resource;
    php_stream_context_set_option(&own->context, "http", "header", header);
    return own;
}

/* Returns a context with this trace for the call; NULL to use the script's own, because the script propagates a trace
 * itself. */
static own_context *extend_context(php_stream_context *context, const shim_trace_fields *trace)
{
    own_context *own = NULL;
    if (trace->parent.length == 0 || (context != NULL && Z_TYPE(context->options) != IS_ARRAY)) {
        return NULL;
    }
    zend_string *fields =
        fields_of(context != NULL ? php_stream_context_get_option(context, "http", "header") : NULL);
    if (!has_line(fields, shim_is_traceparent)) {
        zval header;
        smart_str extended = {0};
        put_field(&extended, SHIM_TRACEPARENT, trace->parent);
        if (trace->state.length > 0 && !has_line(fields, shim_is_tracestate)) {
            put_field(&extended, SHIM_TRACESTATE, trace->state);
        }
        smart_str_append(&extended, fields);
        ZVAL_STR(&header, smart_str_extract(&extended));
        own = copy_context(context, &header);
        zval_ptr_dtor(&header);
    }
    zend_string_release(fields);
    return own;
}

/* Copies the values that PHP has written into the context: the certificates of the server, and the reported progress of
 * a callback. */
static void write_back(own_context *own)
{
    php_stream_context *original = own->original;
    if (original == NULL) {
        return;
    }
    zval *tls = tls_of(&own->context);
    if (tls != NULL && Z_TYPE_P(tls) == IS_ARRAY && (Z_TYPE(own->tls) != IS_ARRAY || Z_ARRVAL_P(tls) != Z_ARRVAL(own->tls))) {
        SEPARATE_ARRAY(&original->options);
        Z_TRY_ADDREF_P(tls);
        zend_hash_str_update(Z_ARRVAL(original->options), "ssl", sizeof("ssl") - 1, tls);
    }
    if (original->notifier != NULL && original->notifier == own->notifier) {
        original->notifier->mask = own->context.notifier->mask;
        original->notifier->progress = own->context.notifier->progress;
        original->notifier->progress_max = own->context.notifier->progress_max;
    }
}

/* Ends the call: its stream gets the script's context. */
static void return_context(own_context *own, php_stream *stream)
{
    write_back(own);
    if (stream != NULL && PHP_STREAM_CONTEXT(stream) == &own->context) {
        php_stream_context_set(stream, own->original);
    }
    zval_ptr_dtor(&own->tls);
    zval_ptr_dtor(&own->context.options);
    if (own->context.notifier != NULL) {
        php_stream_notification_free(own->context.notifier);
    }
    efree(own);
}

/* ---- the span ---- */

static void describe(uint64_t span, const char *url)
{
    const shim_client_call call = {.kind = SHIM_CLIENT_HTTP, .text = shim_view_of_cstr(url)};
    shim_host.client.describe(shim_current->host, span, &call);
}

/* Reads the last status line: each redirect adds one. */
static void read_status(const zval *lines, shim_client_end *end)
{
    zval *line;
    unsigned major, minor, status;
    if (lines == NULL || Z_TYPE_P(lines) != IS_ARRAY) {
        return;
    }
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(lines), line) {
        if (Z_TYPE_P(line) == IS_STRING && sscanf(Z_STRVAL_P(line), "HTTP/%1u.%1u %3u", &major, &minor, &status) == 3) {
            end->status = (uint16_t)status;
            end->version = (uint16_t)(major * 10 + minor);
        }
    } ZEND_HASH_FOREACH_END();
}

static void finish(uint64_t span, const php_stream *stream, php_stream_context *context, const zend_object *before)
{
    shim_client_end end = {.kind = SHIM_CLIENT_HTTP, .method = shim_view_of("GET", 3)};
    const zval *method = context != NULL ? php_stream_context_get_option(context, "http", "method") : NULL;
    if (shim_request_host() == NULL) {
        return;
    }
    if (method != NULL && Z_TYPE_P(method) == IS_STRING && Z_STRLEN_P(method) > 0) {
        end.method = shim_view_of_string(Z_STR_P(method));
    }
    read_status(stream != NULL ? &stream->wrapperdata : SHIM_LAST_HTTP_HEADERS(), &end);
    end.is_cut = shim_observed_is_cut(before);
    if (stream == NULL && end.status < 400 && !end.is_cut) {
        end.failed = true;
        if (EG(exception) != NULL && EG(exception) != before) {
            end.error = shim_view_of_string(EG(exception)->ce->name);
        }
    }
    shim_host.client.finish(shim_current->host, span, &end);
}

static php_stream *open_stream(php_stream_wrapper *own, const char *url, const char *mode, int options,
                               zend_string **opened, php_stream_context *context STREAMS_DC)
{
    const php_stream_wrapper_ops *php = php_stream_http_wrapper.wops;
    if (shim_request_host() == NULL) {
        return php->stream_opener(own, url, mode, options, opened, context STREAMS_REL_CC);
    }
    const zend_object *before = EG(exception);
    const uint64_t span = shim_observed_begin();
    own_context *extended = NULL;
    if (span != 0) {
        describe(span, url);
    }
    if (passes_on) {
        const shim_trace_fields trace = shim_trace_fields_of(span);
        extended = extend_context(context, &trace);
    }
    php_stream_context *used = extended != NULL ? &extended->context : context;
    php_stream *stream = php->stream_opener(own, url, mode, options, opened, used STREAMS_REL_CC);
    if (extended != NULL) {
        return_context(extended, stream);
    }
    if (span != 0) {
        finish(span, stream, context, before);
    }
    return stream;
}

void shim_http_streams_install(bool propagates)
{
    passes_on = propagates;
    shim_wrapper_replace("http", &php_stream_http_wrapper, &wrapper, &operations, open_stream);
    shim_wrapper_replace("https", &php_stream_http_wrapper, &wrapper, &operations, open_stream);
}
