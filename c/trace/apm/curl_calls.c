/* Transfers of curl: a span from curl_exec() to its return, or from curl_multi_add_handle() to the message with the
 * transfer's result, and the trace among its header fields.
 *
 * The calls of libcurl are observed, not those of PHP: a handle of PHP is one that has PHP's callbacks. libcurl has no
 * function that returns the value of an option. The options of the script are therefore recorded; for the duration of
 * a transfer, libcurl gets a list with more lines, and then the script's list again. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "trace/apm/apm.h"

#include <stdlib.h>
#include <zend_smart_str.h>

/* Part of libcurl's ABI: svc is built without curl.h. */
enum {
    CURLOPT_URL = 10002,
    CURLOPT_HTTPHEADER = 10023,
    CURLOPT_WRITEFUNCTION = 20011,
    CURLINFO_RESPONSE_CODE = 0x200002,
    CURLINFO_HTTP_VERSION = 0x20002e,
    CURLINFO_EFFECTIVE_METHOD = 0x10003a,
};

struct curl_slist {
    char *data;
    struct curl_slist *next;
};

/* Functions of libcurl. */
static int (*set_option)(void *easy, int option, ...);
static int (*get_info)(void *easy, int info, ...);
static struct curl_slist *(*append_line)(struct curl_slist *list, const char *line);
static void (*free_lines)(struct curl_slist *list);

static bool passes_on;

/* The record of a handle. */
typedef struct handle {
    void *easy;
    /* The options that the script has set; NULL for none. PHP owns the lines. */
    char *url;
    struct curl_slist *lines;
    /* The lines during a transfer, and whether libcurl has them now. */
    struct curl_slist *extended;
    bool is_extended;
    /* Whether a transfer is in progress, and the multi handle that contains the handle. */
    bool is_busy;
    void *many;
    /* The span of the transfer; 0 if there is none. */
    uint64_t span;
    /* The exception that was in flight when it began. */
    const zend_object *before;
} handle;

static __thread HashTable handles;
static __thread bool has_handles;

static zend_ulong key_of(const void *easy)
{
    return (zend_ulong)(uintptr_t)easy;
}

static handle *find(const void *easy)
{
    return has_handles ? zend_hash_index_find_ptr(&handles, key_of(easy)) : NULL;
}

static void free_record(zval *entry)
{
    handle *own = Z_PTR_P(entry);
    free_lines(own->extended);
    free(own->url);
    free(own);
}

static handle *record(void *easy)
{
    handle *own = calloc(1, sizeof(*own));
    if (own != NULL) {
        if (!has_handles) {
            zend_hash_init(&handles, 8, NULL, free_record, true);
            has_handles = true;
        }
        own->easy = easy;
        zend_hash_index_update_ptr(&handles, key_of(easy), own);
    }
    return own;
}

/* ---- options ---- */

static void set_url(handle *own, const char *url)
{
    free(own->url);
    own->url = url != NULL ? strdup(url) : NULL;
}

static void set_lines(handle *own, struct curl_slist *lines)
{
    own->lines = lines;
    /* The additional lines are kept: a transfer may be using them. */
    own->is_extended = false;
}

static void set(void *easy, int option, void *value, bool is_callback)
{
    handle *own = find(easy);
    if (own == NULL) {
        if (option == CURLOPT_WRITEFUNCTION && is_callback) {
            (void)record(easy);
        }
        return;
    }
    if (option == CURLOPT_URL || option == 0) {
        set_url(own, value);
    }
    if (option == CURLOPT_HTTPHEADER || option == 0) {
        set_lines(own, value);
    }
}

static void copied(void *easy, void *copy)
{
    const handle *own = find(easy);
    handle *other = own != NULL ? record(copy) : NULL;
    if (other == NULL) {
        return;
    }
    set_url(other, own->url);
    other->lines = own->lines;
    if (own->is_extended) {
        (void)set_option(copy, CURLOPT_HTTPHEADER, other->lines);
    }
}

/* ---- the lines during a transfer ---- */

static bool append(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = append_line(*list, line);
    if (longer != NULL) {
        *list = longer;
    }
    return longer != NULL;
}

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

/* Adds the trace, unless the script propagates one itself. */
static void extend(handle *own, const shim_trace_fields *trace)
{
    struct curl_slist *extended = NULL;
    bool is_whole = trace->parent.length > 0, has_state = false;
    for (const struct curl_slist *line = own->lines; line != NULL && is_whole; line = line->next) {
        const size_t length = strlen(line->data);
        is_whole = !shim_is_traceparent(line->data, length) && append(&extended, line->data);
        has_state |= shim_is_tracestate(line->data, length);
    }
    if (is_whole && append_field(&extended, SHIM_TRACEPARENT, trace->parent) &&
        (has_state || trace->state.length == 0 || append_field(&extended, SHIM_TRACESTATE, trace->state)) &&
        set_option(own->easy, CURLOPT_HTTPHEADER, extended) == 0) {
        own->extended = extended;
        own->is_extended = true;
    } else {
        free_lines(extended);
    }
}

static void retract(handle *own)
{
    if (own->is_extended) {
        own->is_extended = false;
        (void)set_option(own->easy, CURLOPT_HTTPHEADER, own->lines);
    }
    free_lines(own->extended);
    own->extended = NULL;
}

/* ---- a transfer ---- */

static bool is_http(const char *url)
{
    return strstr(url, "://") == NULL || strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0;
}

static bool begin(void *easy, void *many)
{
    handle *own = shim_request_host() != NULL ? find(easy) : NULL;
    if (own == NULL || own->is_busy) {
        return false;
    }
    const char *url = own->url != NULL ? own->url : "";
    own->is_busy = true;
    own->many = many;
    own->before = EG(exception);
    /* Other protocols have no span, and no header fields. */
    own->span = is_http(url) ? shim_observed_begin() : 0;
    if (own->span != 0) {
        const shim_client_call call = {.kind = SHIM_CLIENT_HTTP, .text = shim_view_of_cstr(url)};
        shim_host.client.describe(shim_current->host, own->span, &call);
    }
    if (passes_on && is_http(url)) {
        const shim_trace_fields trace = shim_trace_fields_of(own->span);
        extend(own, &trace);
    }
    return true;
}

static const char *error_name(zend_long code)
{
    static const struct {
        zend_long code;
        const char *name;
    } names[] = {
        {1, "CURLE_UNSUPPORTED_PROTOCOL"}, {3, "CURLE_URL_MALFORMAT"}, {5, "CURLE_COULDNT_RESOLVE_PROXY"},
        {6, "CURLE_COULDNT_RESOLVE_HOST"}, {7, "CURLE_COULDNT_CONNECT"}, {16, "CURLE_HTTP2"},
        {18, "CURLE_PARTIAL_FILE"}, {22, "CURLE_HTTP_RETURNED_ERROR"}, {23, "CURLE_WRITE_ERROR"},
        {26, "CURLE_READ_ERROR"}, {28, "CURLE_OPERATION_TIMEDOUT"}, {35, "CURLE_SSL_CONNECT_ERROR"},
        {42, "CURLE_ABORTED_BY_CALLBACK"}, {47, "CURLE_TOO_MANY_REDIRECTS"}, {52, "CURLE_GOT_NOTHING"},
        {55, "CURLE_SEND_ERROR"}, {56, "CURLE_RECV_ERROR"}, {60, "CURLE_PEER_FAILED_VERIFICATION"},
    };
    for (size_t i = 0; i < SHIM_COUNT(names); i++) {
        if (names[i].code == code) {
            return names[i].name;
        }
    }
    return "_OTHER";
}

static uint16_t version_of(long version)
{
    return version == 1 ? 10 : version == 2 ? 11 : version == 3 ? 20 : version == 30 ? 30 : 0;
}

static void finish(handle *own, int result)
{
    const uint64_t span = own->span;
    const zend_object *before = own->before;
    shim_client_end end = {.kind = SHIM_CLIENT_HTTP, .is_cut = shim_observed_is_cut(before)};
    const char *method = NULL;
    long status = 0, version = 0;
    own->span = 0;
    if (span == 0 || shim_request_host() == NULL) {
        return;
    }
    if (get_info(own->easy, CURLINFO_RESPONSE_CODE, &status) == 0 && status > 0 && status < 1000) {
        end.status = (uint16_t)status;
    }
    if (get_info(own->easy, CURLINFO_EFFECTIVE_METHOD, &method) == 0 && method != NULL) {
        end.method = shim_view_of_cstr(method);
    }
    if (get_info(own->easy, CURLINFO_HTTP_VERSION, &version) == 0) {
        end.version = version_of(version);
    }
    if (!end.is_cut && EG(exception) != NULL && EG(exception) != before) {
        end.failed = true;
        end.error = shim_view_of_string(EG(exception)->ce->name);
    } else if (!end.is_cut && (result > 0 || (result < 0 && status == 0))) {
        end.failed = true;
        end.error = shim_view_of_cstr(error_name(result));
    }
    shim_host.client.finish(shim_current->host, span, &end);
}

static void ended(void *easy, int result)
{
    handle *own = find(easy);
    /* curl_easy_perform() also reads the message of a transfer, from a multi handle that libcurl creates for it. */
    if (own != NULL && own->many != NULL) {
        /* An exception that is already in flight does not belong to a transfer of a multi handle. */
        own->before = shim_observed_is_cut(NULL) ? NULL : EG(exception);
        finish(own, result);
    }
}

static void left(void *easy, void *many, int result)
{
    handle *own = find(easy);
    if (own == NULL || own->many != many) {
        return;
    }
    if (result == SHIM_TRANSFER_REFUSED && own->span != 0) {
        shim_host.client.discard(shim_current->host, own->span);
        own->span = 0;
    } else if (many != NULL) {
        ended(easy, result);
    } else if (result != SHIM_TRANSFER_CUT) {
        finish(own, result);
    }
    retract(own);
    own->is_busy = false;
    own->many = NULL;
    own->span = 0;
}

static void freed(void *easy, void *many)
{
    handle *own = find(easy);
    void *other;
    if (own != NULL) {
        if (own->many != NULL) {
            left(easy, own->many, SHIM_TRANSFER_UNKNOWN);
        }
        zend_hash_index_del(&handles, key_of(easy));
    } else if (many != NULL && has_handles) {
        ZEND_HASH_FOREACH_PTR(&handles, other) {
            own = other;
            if (own->many == many) {
                left(own->easy, many, SHIM_TRANSFER_UNKNOWN);
            }
        } ZEND_HASH_FOREACH_END();
    }
}

void shim_curl_calls_install(bool propagates)
{
    static const shim_transfer_watch watch = {set, copied, begin, ended, left, freed};
    void *functions[4] = {NULL};
    passes_on = propagates;
    set_option = (int (*)(void *, int, ...))shim_libcurl(&functions[0], "curl_easy_setopt");
    get_info = (int (*)(void *, int, ...))shim_libcurl(&functions[1], "curl_easy_getinfo");
    append_line =
        (struct curl_slist * (*)(struct curl_slist *, const char *))shim_libcurl(&functions[2], "curl_slist_append");
    free_lines = (void (*)(struct curl_slist *))shim_libcurl(&functions[3], "curl_slist_free_all");
    if (set_option != NULL && get_info != NULL && append_line != NULL && free_lines != NULL) {
        shim_transfer_watched = &watch;
    }
}

void shim_curl_calls_forget(void)
{
    if (has_handles) {
        zend_hash_destroy(&handles);
        has_handles = false;
    }
}
