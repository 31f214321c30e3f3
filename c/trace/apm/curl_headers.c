/* The header fields of curl's handles.
 *
 * libcurl does not return the value of its option, and a script's setting must be preserved. The script's fields are
 * therefore recorded in a separate list. For the duration of a call, libcurl gets a list with more lines; afterwards,
 * it gets the script's list back. Copies of a handle refer to the same list, which lives as long as one of them does.
 *
 * A record is found by its object, and freed with it, like an entry of a WeakMap. */
#include "compat.h"
#include "trace/apm/apm.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <zend_smart_str.h>
#include <zend_weakrefs.h>

shim_curl shim_libcurl;

static zend_class_entry *class;
static zend_object *(*clone_php_s)(zend_object *object);
static void (*free_php_s)(zend_object *object);

static __thread HashTable records;
static __thread bool has_records;

/* Multi handles that contain handles: freeing one removes its handles. */
static __thread HashTable multis;
static __thread bool has_multis;
static void (*leave)(shim_curl_handle *handle);

/* ---- lists ---- */

static void let_go(shim_curl_fields *fields)
{
    if (fields != NULL && --fields->references == 0) {
        let_go(fields->former);
        shim_libcurl.free_all(fields->list);
        free(fields);
    }
}

static bool append(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = shim_libcurl.append(*list, line);
    if (longer != NULL) {
        *list = longer;
    }
    return longer != NULL;
}

/* Builds the same lines that PHP makes of the array. With an object in it, the option is left alone: a second
 * conversion might be observable. */
static shim_curl_fields *fields_of(HashTable *lines)
{
    shim_curl_fields *fields = calloc(1, sizeof(*fields));
    zval *line;
    if (fields == NULL) {
        return NULL;
    }
    fields->references = 1;
    fields->is_fixed = lines == NULL;
    if (lines == NULL) {
        return fields;
    }
    ZEND_HASH_FOREACH_VAL(lines, line) {
        ZVAL_DEREF(line);
        if (Z_TYPE_P(line) == IS_OBJECT || Z_TYPE_P(line) == IS_ARRAY) {
            fields->is_fixed = true;
            break;
        }
        zend_string *text = zval_get_string(line);
        fields->is_fixed |= shim_is_traceparent(ZSTR_VAL(text), ZSTR_LEN(text)) || !append(&fields->list, ZSTR_VAL(text));
        fields->has_state |= shim_is_tracestate(ZSTR_VAL(text), ZSTR_LEN(text));
        zend_string_release(text);
    } ZEND_HASH_FOREACH_END();
    return fields;
}

/* libcurl's own layout. */
struct curl_slist {
    char *data;
    struct curl_slist *next;
};

/* ---- records ---- */

static void free_record(zval *entry)
{
    shim_curl_handle *handle = Z_PTR_P(entry);
    let_go(handle->fields);
    let_go(handle->prepared);
    shim_libcurl.free_all(handle->extended);
    free(handle->url);
    free(handle->redirected);
    free(handle);
}

static shim_curl_handle *make(zend_object *object)
{
    shim_curl_handle *handle = calloc(1, sizeof(*handle));
    zval entry;
    if (handle == NULL) {
        return NULL;
    }
    if (!has_records) {
        zend_hash_init(&records, 8, NULL, free_record, true);
        has_records = true;
    }
    /* The handle is the first member of the extension's struct, in all versions. */
    handle->easy = *(void **)((char *)object - object->handlers->offset);
    ZVAL_PTR(&entry, handle);
    (void)zend_weakrefs_hash_add(&records, object, &entry);
    return handle;
}

shim_curl_handle *shim_curl_handle_of(zend_object *object, bool is_made)
{
    if (object == NULL || object->ce != class) {
        return NULL;
    }
    shim_curl_handle *handle =
        has_records ? zend_hash_index_find_ptr(&records, zend_object_to_weakref_key(object)) : NULL;
    return handle != NULL || !is_made ? handle : make(object);
}

static void set(shim_curl_handle *handle, shim_curl_fields *fields)
{
    let_go(handle->fields);
    handle->fields = fields;
    /* libcurl now has PHP's list. The other one is kept: a transfer may be using it. */
    handle->is_extended = false;
}

static struct curl_slist *list_of(const shim_curl_handle *handle)
{
    return handle->fields != NULL ? handle->fields->list : NULL;
}

/* Gives libcurl the script's list. The other one is kept: a transfer may be using it. */
static void unextend(shim_curl_handle *handle)
{
    if (handle->is_extended) {
        handle->is_extended = false;
        (void)shim_libcurl.setopt(handle->easy, SHIM_CURLOPT_HTTPHEADER, list_of(handle));
    }
}

/* Keeps the former list, so that even an interrupted call does not leave libcurl with a freed one. */
void shim_curl_handle_unsettle(zend_object *object)
{
    shim_curl_handle *handle = shim_curl_handle_of(object, true);
    if (handle == NULL || (handle->fields != NULL && handle->fields->former != NULL)) {
        return;
    }
    unextend(handle);
    shim_curl_fields *unknown = fields_of(NULL);
    if (unknown != NULL) {
        unknown->former = handle->fields;
        handle->fields = unknown;
    }
}

/* Whether the lines are still those that were prepared: script code runs while PHP converts objects to strings, and may
 * set the fields itself, or change these behind a reference. */
static bool is_still(const shim_curl_fields *prepared, HashTable *lines)
{
    shim_curl_fields *now = fields_of(lines);
    bool is_same = prepared != NULL && now != NULL;
    const struct curl_slist *one = is_same ? prepared->list : NULL, *other = is_same ? now->list : NULL;
    for (; one != NULL && other != NULL && strcmp(one->data, other->data) == 0; one = one->next) {
        other = other->next;
    }
    is_same = is_same && one == NULL && other == NULL;
    let_go(now);
    return is_same;
}

void shim_curl_handle_prepare(zend_object *object, HashTable *lines)
{
    shim_curl_handle *handle = shim_curl_handle_of(object, true);
    if (handle != NULL) {
        let_go(handle->prepared);
        handle->prepared = fields_of(lines);
    }
}

void shim_curl_handle_settle(zend_object *object, HashTable *lines, bool is_set)
{
    shim_curl_handle *handle = shim_curl_handle_of(object, false);
    if (handle == NULL) {
        return;
    }
    shim_curl_fields *prepared = handle->prepared;
    handle->prepared = NULL;
    if (is_set && is_still(prepared, lines)) {
        set(handle, prepared);
        return;
    }
    let_go(prepared);
    if (is_set) {
        set(handle, fields_of(NULL));
    }
}

void shim_curl_handle_reset(zend_object *object)
{
    shim_curl_handle *handle = shim_curl_handle_of(object, false);
    if (handle != NULL) {
        set(handle, NULL);
    }
}

static const char *effective_url(const shim_curl_handle *handle)
{
    const char *url = NULL;
    return shim_libcurl.getinfo(handle->easy, SHIM_CURLINFO_EFFECTIVE_URL, &url) == 0 && url != NULL ? url : "";
}

static void replace(char **text, const char *by)
{
    free(*text);
    *text = by != NULL ? strdup(by) : NULL;
}

const char *shim_curl_handle_url(shim_curl_handle *handle)
{
    const char *url = effective_url(handle);
    if (handle->redirected == NULL || handle->url == NULL || strcmp(url, handle->redirected) != 0) {
        replace(&handle->url, url);
        replace(&handle->redirected, NULL);
    }
    return handle->url != NULL ? handle->url : url;
}

void shim_curl_handle_forget_url(zend_object *object)
{
    shim_curl_handle *handle = shim_curl_handle_of(object, false);
    if (handle != NULL) {
        replace(&handle->url, NULL);
        replace(&handle->redirected, NULL);
    }
}

void shim_curl_handle_copied(zend_object *object, zend_object *copy)
{
    const shim_curl_handle *handle = shim_curl_handle_of(object, false);
    shim_curl_handle *other = handle != NULL ? shim_curl_handle_of(copy, true) : NULL;
    if (other == NULL) {
        return;
    }
    other->fields = handle->fields;
    if (other->fields != NULL) {
        other->fields->references++;
    }
    replace(&other->url, handle->url);
    replace(&other->redirected, handle->redirected);
    if (handle->is_extended) {
        (void)shim_libcurl.setopt(other->easy, SHIM_CURLOPT_HTTPHEADER, list_of(other));
    }
}

static zend_object *clone_object(zend_object *object)
{
    zend_object *copy = clone_php_s(object);
    if (copy != NULL) {
        shim_curl_handle_copied(object, copy);
    }
    return copy;
}

/* Removes the handle from its multi handle first: one that only its multi handle references is freed with it, while its
 * transfer can still report its result. */
static void free_object(zend_object *object)
{
    shim_curl_handle *handle = shim_curl_handle_of(object, false);
    if (handle != NULL && handle->multi != NULL) {
        leave(handle);
    }
    free_php_s(object);
}

/* ---- the lines for a call ---- */

/* Appends a field. libcurl needs a terminated string, and the view has no terminator. */
static bool append_field(struct curl_slist **list, const char *name, shim_view value)
{
    smart_str line = {0};
    smart_str_appends_ex(&line, name, true);
    smart_str_appendl_ex(&line, ": ", 2, true);
    smart_str_appendl_ex(&line, value.bytes, value.length, true);
    smart_str_0(&line);
    const bool is_appended = append(list, ZSTR_VAL(line.s));
    smart_str_free_ex(&line, true);
    return is_appended;
}

void shim_curl_handle_extend(shim_curl_handle *handle, const shim_trace_fields *trace)
{
    struct curl_slist *extended = NULL;
    bool is_whole = handle->fields == NULL || !handle->fields->is_fixed;
    if (!is_whole || trace->parent.length == 0) {
        return;
    }
    const bool has_state = trace->state.length > 0 && (handle->fields == NULL || !handle->fields->has_state);
    for (const struct curl_slist *own = list_of(handle); own != NULL && is_whole; own = own->next) {
        is_whole = append(&extended, own->data);
    }
    if (is_whole && append_field(&extended, SHIM_TRACEPARENT, trace->parent) &&
        (!has_state || append_field(&extended, SHIM_TRACESTATE, trace->state)) &&
        shim_libcurl.setopt(handle->easy, SHIM_CURLOPT_HTTPHEADER, extended) == 0) {
        shim_libcurl.free_all(handle->extended);
        handle->extended = extended;
        handle->is_extended = true;
    } else {
        shim_libcurl.free_all(extended);
    }
}

void shim_curl_handle_retract(shim_curl_handle *handle)
{
    const char *url = effective_url(handle);
    replace(&handle->redirected, handle->url != NULL && strcmp(url, handle->url) != 0 ? url : NULL);
    unextend(handle);
    shim_libcurl.free_all(handle->extended);
    handle->extended = NULL;
}

/* Returns the record of any handle in a multi handle; NULL if there is none left. */
static shim_curl_handle *handle_in(const zend_object *multi)
{
    void *handle;
    if (has_records) {
        ZEND_HASH_FOREACH_PTR(&records, handle) {
            if (((shim_curl_handle *)handle)->multi == multi) {
                return handle;
            }
        } ZEND_HASH_FOREACH_END();
    }
    return NULL;
}

void shim_curl_multi_leave(const zend_object *multi)
{
    shim_curl_handle *handle;
    while ((handle = handle_in(multi)) != NULL) {
        leave(handle);
    }
}

static void free_multi(zval *entry)
{
    shim_curl_multi_leave(Z_PTR_P(entry));
}

void shim_curl_multi_watch(zend_object *multi)
{
    zval entry;
    if (!has_multis) {
        zend_hash_init(&multis, 8, NULL, free_multi, true);
        has_multis = true;
    }
    if (!zend_hash_index_exists(&multis, zend_object_to_weakref_key(multi))) {
        ZVAL_PTR(&entry, multi);
        (void)zend_weakrefs_hash_add(&multis, multi, &entry);
    }
}

bool shim_curl_handles_install(void (*leave_multi)(shim_curl_handle *handle))
{
    leave = leave_multi;
    class = zend_hash_str_find_ptr(CG(class_table), "curlhandle", sizeof("curlhandle") - 1);
    shim_libcurl = (shim_curl){
        .setopt = (int (*)(void *, int, ...))(uintptr_t)dlsym(RTLD_DEFAULT, "curl_easy_setopt"),
        .getinfo = (int (*)(void *, int, ...))(uintptr_t)dlsym(RTLD_DEFAULT, "curl_easy_getinfo"),
        .append = (struct curl_slist * (*)(struct curl_slist *, const char *))(uintptr_t)dlsym(RTLD_DEFAULT,
                                                                                               "curl_slist_append"),
        .free_all = (void (*)(struct curl_slist *))(uintptr_t)dlsym(RTLD_DEFAULT, "curl_slist_free_all"),
    };
    if (class == NULL || shim_libcurl.setopt == NULL || shim_libcurl.getinfo == NULL || shim_libcurl.append == NULL ||
        shim_libcurl.free_all == NULL || class->default_object_handlers == NULL) {
        return false;
    }
    /* The extension has filled the handlers when it started, and does not copy them before it creates its first object. */
    zend_object_handlers *handlers = (zend_object_handlers *)(uintptr_t)class->default_object_handlers;
    clone_php_s = handlers->clone_obj;
    handlers->clone_obj = clone_object;
    free_php_s = handlers->free_obj;
    handlers->free_obj = free_object;
    return true;
}

void shim_curl_handles_forget(void)
{
    if (has_multis) {
        zend_hash_destroy(&multis);
        has_multis = false;
    }
    if (has_records) {
        zend_hash_destroy(&records);
        has_records = false;
    }
}
