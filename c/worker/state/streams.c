/* The state of the streams layer for a request: wrappers, filters, the default context.
 *
 * If the boot script has registered any, a request begins with a copy: scripts change these tables in place, and
 * contexts too. Registrations by a request end with it, unless the script runs its own loop: code registers wrappers
 * and filters once, at their first use, and in such a script the tables of that request become the script's own. */
#include "compat.h"
#include "php/engine/engine.h"
#include "worker/state/state.h"

#include <ext/standard/php_fopen_wrappers.h>

/* The boot script's filters; each registered value belongs to one table. */
static __thread HashTable *boot_filters;
static __thread HashTable *boot_wrappers, *boot_factories;
/* A copy of the boot script's default context; NULL if requests begin without one. */
static __thread php_stream_context *boot_context;
static __thread int pclose_ret;

/* The tables of the last request, if they become the boot script's. */
static __thread struct {
    bool are_there;
    HashTable *wrappers, *factories, *filters;
} kept;

static void read_members(shim_streams_state *state)
{
    SHIM_STREAMS_MEMBERS(SHIM_READ_MEMBER)
}

static void write_members(const shim_streams_state *state)
{
    SHIM_STREAMS_MEMBERS(SHIM_WRITE_MEMBER)
}

void shim_streams_reset(void)
{
    write_members(&(shim_streams_state){
        .pclose_ret = pclose_ret,
        .stream_wrappers = boot_wrappers,
        .stream_filters = boot_factories,
    });
}

/* ---- contexts ---- */

static bool is_configured(const php_stream_context *context)
{
    return context != NULL && (context->notifier != NULL || zend_hash_num_elements(Z_ARRVAL(context->options)) > 0);
}

/* ---- wrappers ---- */

/* Returns the resource in which PHP keeps a wrapper of stream_wrapper_register(), and with which it is freed when it is
 * unregistered. */
static zend_resource *resource_of(const php_stream_wrapper *wrapper)
{
    const int type = zend_fetch_list_dtor_id("stream factory");
    zend_resource *resource;
    ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
        if (resource->type == type && resource->ptr == wrapper) {
            return resource;
        }
    } ZEND_HASH_FOREACH_END();
    return NULL;
}

static void each_own_wrapper(HashTable *table, void (*visit)(zend_resource *))
{
    php_stream_wrapper *wrapper;
    ZEND_HASH_FOREACH_PTR(table, wrapper) {
        zend_resource *resource = strcmp(wrapper->wops->label, "user-space") == 0 ? resource_of(wrapper) : NULL;
        if (resource != NULL) {
            visit(resource);
        }
    } ZEND_HASH_FOREACH_END();
}

static void hold(zend_resource *resource)
{
    GC_ADDREF(resource);
}

static void let_go(zend_resource *resource)
{
    zend_list_delete(resource);
}

/* ---- tables ---- */

static HashTable *copy_table(HashTable *table, dtor_func_t free_value)
{
    if (table == NULL) {
        return NULL;
    }
    HashTable *copy;
    ALLOC_HASHTABLE(copy);
    zend_hash_init(copy, zend_hash_num_elements(table), NULL, free_value, 0);
    zend_hash_copy(copy, table, NULL);
    return copy;
}

static void free_table(HashTable **place)
{
    HashTable *table = *place;
    *place = NULL;
    if (table != NULL) {
        zend_hash_destroy(table);
        FREE_HASHTABLE(table);
    }
}

/* Frees a filter of a request's copy, unless it belongs to the boot script's table. */
static void free_filter(zval *filter)
{
    void *boots;
    ZEND_HASH_FOREACH_PTR(boot_filters, boots) {
        if (boots == Z_PTR_P(filter)) {
            return;
        }
    } ZEND_HASH_FOREACH_END();
    boot_filters->pDestructor(filter);
}

/* ---- the verbs ---- */

void shim_streams_capture(void)
{
    free(FG(tmp_host_buf));
    FG(tmp_host_buf) = NULL;
    FG(tmp_host_buf_len) = 0;
    pclose_ret = FG(pclose_ret);
    boot_context = is_configured(FG(default_context)) ? shim_context_copy(FG(default_context)) : NULL;
    boot_filters = BG(user_filter_map);
    boot_wrappers = FG(stream_wrappers);
    boot_factories = FG(stream_filters);
}

void shim_streams_release(void)
{
    if (boot_context != NULL) {
        zend_list_delete(boot_context->res);
        boot_context = NULL;
    }
}

void shim_streams_begin(void)
{
    HashTable *const wrappers = copy_table(boot_wrappers, NULL);
    HashTable *const factories = copy_table(boot_factories, NULL);
    HashTable *const filters = copy_table(boot_filters, free_filter);
    php_stream_context *const context = boot_context != NULL ? shim_context_copy(boot_context) : NULL;
    /* Nothing is allocated from here on. */
    FG(stream_wrappers) = wrappers;
    FG(stream_filters) = factories;
    BG(user_filter_map) = filters;
    FG(default_context) = context;
    if (wrappers != NULL) {
        each_own_wrapper(wrappers, hold);
    }
}

void shim_streams_suspend(shim_streams_state *state)
{
    read_members(state);
    shim_streams_reset();
}

void shim_streams_resume(const shim_streams_state *state)
{
    write_members(state);
}

static void free_wrappers(HashTable **place)
{
    if (*place != NULL) {
        each_own_wrapper(*place, let_go);
    }
    free_table(place);
}

void shim_streams_end(bool keeps)
{
    if (keeps) {
        kept.are_there = true;
        kept.wrappers = FG(stream_wrappers);
        kept.factories = FG(stream_filters);
        kept.filters = BG(user_filter_map);
    } else {
        free_wrappers(&FG(stream_wrappers));
        free_table(&FG(stream_filters));
        free_table(&BG(user_filter_map));
    }
    free_table(&FG(wrapper_errors));
    free(FG(tmp_host_buf));
    shim_streams_reset();
}

void shim_streams_inherit(void)
{
    if (!kept.are_there) {
        return;
    }
    kept.are_there = false;
    free_wrappers(&FG(stream_wrappers));
    free_table(&FG(stream_filters));
    if (BG(user_filter_map) != NULL) {
        /* All its filters are in the other table, too: filters cannot be removed. */
        kept.filters->pDestructor = BG(user_filter_map)->pDestructor;
        BG(user_filter_map)->pDestructor = NULL;
    }
    free_table(&BG(user_filter_map));
    FG(stream_wrappers) = kept.wrappers;
    FG(stream_filters) = kept.factories;
    BG(user_filter_map) = kept.filters;
}

/* ---- php://input, bound to the request that has opened it ---- */

/* PHP's stream points to the stream of the body, which ends with its request, and reads missing bytes from the request
 * that is running at that moment. In a worker, scripts keep such streams for longer than a request (a static variable,
 * a cycle), and other requests read them. PHP's wrapper is therefore replaced by a copy with another opener, whose
 * streams get operations that know the owner of their body.
 *
 * Invariant. A stream points to a live body, or to none: it is emptied before its body is freed. A stream that values
 * of PHP may still reference is never released: a stream that a script can reach is closed as fclose() would close it,
 * and its resource remains; a stream of PHP's own code (SplFileObject, XMLReader) stays open, and is at its end. */

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
    shim_wrapper_replace("php", &php_stream_php_wrapper, &wrapper, &opening, open_php);
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
