/* PHP's streams of `http:` and `https:`: a span from the request to the header of the response, and `traceparent` among the
 * header fields.
 *
 * PHP's wrapper is replaced by one with the same operations, but for the one that opens: whatever opens such a stream (fopen,
 * file_get_contents, copy, an XML parser) comes along here. The wrapper takes its header fields from the context, which
 * has one more for the time of the call. */
#include "apm/http_streams.h"
#include "apm/observed.h"
#include "compat.h"
#include "context/context.h"
#include "context/current_span.h"

#include <ext/standard/php_fopen_wrappers.h>

static bool passes_on;
static php_stream_wrapper_ops operations;
static php_stream_wrapper wrapper;

/* ---- the header fields ---- */

static bool is_line(const char *line, size_t length)
{
    static const char name[] = "traceparent";
    while (length > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        length--;
    }
    return length >= sizeof(name) && strncasecmp(line, name, sizeof(name) - 1) == 0 && memchr(":; \t", line[sizeof(name) - 1], 4) != NULL;
}

static bool has_line(const zend_string *text)
{
    const char *line = ZSTR_VAL(text), *end = line + ZSTR_LEN(text);
    while (line < end) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        next = next != NULL ? next + 1 : end;
        if (is_line(line, (size_t)(next - line))) {
            return true;
        }
        line = next;
    }
    return false;
}

static bool passes_trace_on(zval *header)
{
    zval *line;
    if (Z_TYPE_P(header) == IS_STRING) {
        return has_line(Z_STR_P(header));
    }
    if (Z_TYPE_P(header) == IS_ARRAY) {
        ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(header), line) {
            ZVAL_DEREF(line);
            if (Z_TYPE_P(line) == IS_STRING && has_line(Z_STR_P(line))) {
                return true;
            }
        } ZEND_HASH_FOREACH_END();
    }
    return false;
}

/* The same header fields and one more. Returns false if that is not possible. */
static bool extend(zval *extended, zval *header, zend_string *line)
{
    if (header == NULL || Z_TYPE_P(header) != IS_ARRAY) {
        const bool has_text = header != NULL && Z_TYPE_P(header) == IS_STRING && Z_STRLEN_P(header) > 0;
        if (!has_text) {
            ZVAL_STR_COPY(extended, line);
            return header == NULL || Z_TYPE_P(header) == IS_STRING;
        }
        /* In front: what follows an empty line of the script's is no field any more. */
        ZVAL_STR(extended, zend_string_concat3(ZSTR_VAL(line), ZSTR_LEN(line), "\r\n", 2, Z_STRVAL_P(header), Z_STRLEN_P(header)));
        return true;
    }
    zval value;
    ZVAL_ARR(extended, zend_array_dup(Z_ARRVAL_P(header)));
    ZVAL_STR_COPY(&value, line);
    if (zend_hash_next_index_insert(Z_ARRVAL_P(extended), &value) == NULL) {
        zval_ptr_dtor(&value);
        zval_ptr_dtor(extended);
        return false;
    }
    return true;
}

/* What has been changed in a context. */
typedef struct change {
    php_stream_context *context;
    zval original;
    zval extended;
    bool had_options;
} change;

static void change_context(change *made, php_stream_context *context, shim_view traceparent)
{
    *made = (change){0};
    if (context == NULL || traceparent.length == 0 || Z_TYPE(context->options) != IS_ARRAY) {
        return;
    }
    /* The script may have given a reference, and change what it refers to. */
    zval *given = php_stream_context_get_option(context, "http", "header"), *header = given;
    if (header != NULL) {
        ZVAL_DEREF(header);
    }
    if (header != NULL && passes_trace_on(header)) {
        return;
    }
    zend_string *line = zend_string_concat2("traceparent: ", sizeof("traceparent: ") - 1, traceparent.bytes, traceparent.length);
    if (extend(&made->extended, header, line)) {
        made->context = context;
        made->had_options = zend_hash_str_exists(Z_ARRVAL(context->options), "http", sizeof("http") - 1);
        if (header != NULL) {
            ZVAL_COPY(&made->original, given);
        }
        php_stream_context_set_option(context, "http", "header", &made->extended);
    }
    zend_string_release(line);
}

static void forget_option(php_stream_context *context, bool with_options)
{
    SEPARATE_ARRAY(&context->options);
    zval *options = zend_hash_str_find(Z_ARRVAL(context->options), "http", sizeof("http") - 1);
    if (options == NULL || Z_TYPE_P(options) != IS_ARRAY) {
        return;
    }
    SEPARATE_ARRAY(options);
    zend_hash_str_del(Z_ARRVAL_P(options), "header", sizeof("header") - 1);
    if (with_options && zend_hash_num_elements(Z_ARRVAL_P(options)) == 0) {
        zend_hash_str_del(Z_ARRVAL(context->options), "http", sizeof("http") - 1);
    }
}

/* A callback may have set other fields in the meantime; then they stay. */
static void change_back(change *made)
{
    if (made->context == NULL) {
        return;
    }
    const zval *header = php_stream_context_get_option(made->context, "http", "header");
    if (header != NULL && Z_TYPE_P(header) == Z_TYPE(made->extended) && Z_PTR_P(header) == Z_PTR(made->extended)) {
        if (Z_TYPE(made->original) != IS_UNDEF) {
            php_stream_context_set_option(made->context, "http", "header", &made->original);
        } else {
            forget_option(made->context, !made->had_options);
        }
    }
    zval_ptr_dtor(&made->original);
    zval_ptr_dtor(&made->extended);
}

/* ---- the span ---- */

static void describe(uint64_t span, const char *url)
{
    const shim_client_call call = {.kind = SHIM_CLIENT_HTTP, .text = shim_view_of(url, strlen(url))};
    shim_host.client.describe(shim_current->host, span, &call);
}

/* The last status line: redirects have one each. */
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
        end.method = shim_observed_view(Z_STR_P(method));
    }
    read_status(stream != NULL ? &stream->wrapperdata : SHIM_LAST_HTTP_HEADERS(), &end);
    if (stream == NULL && end.status < 400) {
        end.failed = true;
        if (EG(exception) != NULL && EG(exception) != before && !zend_is_unwind_exit(EG(exception))) {
            end.error = shim_observed_view(EG(exception)->ce->name);
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
    change made = {0};
    if (span != 0) {
        describe(span, url);
    }
    if (passes_on) {
        shim_view traceparent = {0};
        shim_host.span.traceparent(shim_current->host, span != 0 ? span : shim_current_span, &traceparent);
        change_context(&made, context, traceparent);
    }
    php_stream *stream = php->stream_opener(own, url, mode, options, opened, context STREAMS_REL_CC);
    change_back(&made);
    if (span != 0) {
        finish(span, stream, context, before);
    }
    return stream;
}

void shim_http_streams_install(bool propagates)
{
    static const char *const schemes[] = {"http", "https"};
    passes_on = propagates;
    operations = *php_stream_http_wrapper.wops;
    operations.stream_opener = open_stream;
    wrapper = php_stream_http_wrapper;
    wrapper.wops = &operations;
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        HashTable *wrappers = php_stream_get_url_stream_wrappers_hash_global();
        zval *own = zend_hash_str_find(wrappers, schemes[i], strlen(schemes[i]));
        /* In its place, so that stream_get_wrappers() lists it where it was. */
        if (own != NULL && Z_PTR_P(own) == &php_stream_http_wrapper) {
            Z_PTR_P(own) = &wrapper;
        }
    }
}
