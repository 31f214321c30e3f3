/* The state of the streams layer for a request: wrappers, filters, the default context.
 *
 * If the boot script has registered any, a request begins with a copy: scripts change these tables in place, and
 * contexts too. Registrations by a request end with it, unless the script runs its own loop: code registers wrappers
 * and filters once, at their first use, and in such a script the tables of that request become the script's own. */
#include "compat.h"
#include "worker/state/streams.h"

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
    *state = (shim_streams_state){
        .pclose_ret = FG(pclose_ret),
        .user_stream_current_filename = FG(user_stream_current_filename),
        .default_context = FG(default_context),
        .stream_wrappers = FG(stream_wrappers),
        .stream_filters = FG(stream_filters),
        .wrapper_errors = FG(wrapper_errors),
        .tmp_host_buf = FG(tmp_host_buf),
        .tmp_host_buf_len = FG(tmp_host_buf_len),
    };
}

static void write_members(const shim_streams_state *state)
{
    FG(pclose_ret) = state->pclose_ret;
    FG(user_stream_current_filename) = state->user_stream_current_filename;
    FG(default_context) = state->default_context;
    FG(stream_wrappers) = state->stream_wrappers;
    FG(stream_filters) = state->stream_filters;
    FG(wrapper_errors) = state->wrapper_errors;
    FG(tmp_host_buf) = state->tmp_host_buf;
    FG(tmp_host_buf_len) = state->tmp_host_buf_len;
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

php_stream_notifier *shim_notifier_copy(const php_stream_notifier *notifier)
{
    if (notifier == NULL) {
        return NULL;
    }
    php_stream_notifier *copy = php_stream_notification_alloc();
    *copy = *notifier;
    /* Assigned only once it is complete: freeing an incomplete copy would free values of the original. */
    SHIM_COPY_NOTIFIED(copy, notifier);
    return copy;
}

php_stream_context *shim_context_copy(const php_stream_context *context)
{
    php_stream_context *copy = php_stream_context_alloc();
    zval_ptr_dtor(&copy->options);
    /* Scripts separate shared options before they change them. */
    ZVAL_COPY(&copy->options, &context->options);
    copy->notifier = shim_notifier_copy(context->notifier);
    return copy;
}

static bool says_something(const php_stream_context *context)
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
    boot_context = says_something(FG(default_context)) ? shim_context_copy(FG(default_context)) : NULL;
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

void shim_streams_give(void)
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

void shim_keep_open(php_stream *stream)
{
    stream->flags |= PHP_STREAM_FLAG_NO_FCLOSE;
}
