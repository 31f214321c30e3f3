/* Calls of databases, stores and HTTP servers as spans. */
#ifndef SVC_TRACE_APM_H
#define SVC_TRACE_APM_H

#include "compat.h"
#include "php/context/context.h"
#include "shim.h"

/* ---- The plugin `apm` (apm.c) ---- */

/* Call after PHP has started and all other handlers of functions have been replaced; `place` is the slot for extensions
 * in functions. Returns false if out of memory. */
bool shim_apm_install(const shim_options *options, int place);
/* Frees the records of a thread after its objects were destroyed. */
extern const shim_request_hooks shim_apm_request_hooks;

/* ---- Transfers of curl (curl_calls.c) ---- */

/* Observes curl. Its requests propagate the trace if `propagates`. Returns false if out of memory. */
bool shim_curl_calls_install(bool propagates);

/* ---- Calls of functions and methods that talk to a server, and are recorded as spans (observed.c) ---- */

#define SHIM_TRACEPARENT "traceparent"
#define SHIM_TRACESTATE "tracestate"

/* Their values. Both are empty without a trace; `state` may be empty. */
typedef struct shim_trace_fields {
    shim_view parent;
    shim_view state;
} shim_trace_fields;

/* Returns the fields for a call that is recorded as `span`, or is not recorded if that is 0. Call in a request; the
 * views are valid until its next call of the host. */
shim_trace_fields shim_trace_fields_of(uint64_t span);
/* Whether a header line sets or removes the field. */
bool shim_is_traceparent(const char *line, size_t length);
bool shim_is_tracestate(const char *line, size_t length);

struct shim_observer;

/* A call that is being recorded; stored on its caller's stack. */
typedef struct shim_observed {
    const struct shim_observer *observer;
    zend_execute_data *execute_data;
    zval *return_value;
    uint64_t span;
    /* Set by describe() if the call sends nothing, and is not recorded. */
    bool is_silent;
    /* The exception that the call has thrown. */
    zend_object *thrown;
    /* Memory for texts, and for values that views refer to. */
    char text[48];
    zval held[2];
} shim_observed;

/* The observation of a function. Names are in lowercase. */
typedef struct shim_observer {
    /* NULL for a function. */
    const char *class_name;
    const char *name;
    shim_client_kind kind;
    /* The database, as named by the host. */
    const char *system;
    /* The operation of the function, unless its text contains it. */
    const char *operation;
    /* The number of the argument with the text, from 1; 0 if there is none. If a function takes its connection as an
     * argument, that is the first one. */
    uint32_t text;
    bool is_prepared;
    void (*describe)(shim_observed *observed, shim_client_call *call);
    void (*judge)(shim_observed *observed, shim_client_end *end);
} shim_observer;

/* The rows of each extension. */
typedef struct shim_observers {
    const shim_observer *rows;
    size_t count;
    /* Returns the row of a function that is not listed; may be NULL. */
    const shim_observer *(*other)(const char *class_name, const char *name);
} shim_observers;

/* Returns an argument without references; NULL if it was not passed. */
zval *shim_observed_argument(const shim_observed *observed, uint32_t number);
/* Returns an argument that is a string; empty otherwise. */
shim_view shim_observed_text(const shim_observed *observed, uint32_t number);
/* Returns the subject of the call: the object of the method, or the first argument of a function; NULL if there is none. */
zend_object *shim_observed_subject(const shim_observed *observed);
/* Returns a property of the exception that the call has thrown. */
zval *shim_observed_thrown(const shim_observed *observed, const char *name, zval *held);
/* Calls a built-in method to describe the span; has no other effect. `answer` is undefined if that is not possible. */
void shim_observed_call_method(zend_object *object, const char *class_name, const char *method, zval *answer);
/* Formats a number in the memory of the call. */
shim_view shim_observed_number(shim_observed *observed, zend_long number);

static inline shim_view shim_observed_view(const zend_string *text)
{
    return shim_view_of(ZSTR_VAL(text), ZSTR_LEN(text));
}

/* Whether the server's interpretation of a backslash matters. */
static inline bool shim_observed_has_backslash(const shim_client_call *call)
{
    return !call->is_prepared && call->text.length > 0 && memchr(call->text.bytes, '\\', call->text.length) != NULL;
}

/* Whether the call is cut short: its script has called exit() in it, or its fiber is being destroyed. */
static inline bool shim_observed_is_cut(const zend_object *thrown_before)
{
    const zend_object *thrown = EG(exception);
    return thrown != NULL && thrown != thrown_before && (zend_is_unwind_exit(thrown) || zend_is_graceful_exit(thrown));
}

/* Begins a span. Returns its number; 0 if the call is not recorded. */
uint64_t shim_observed_begin(void);
/* Installs the rows of each list for their functions. Call once, before any thread runs PHP. Returns false if out of
 * memory. */
bool shim_observed_install(const shim_observers *const *all, size_t count, int place);
/* Replaces the handler of a function by one that finally calls shim_observed_next(). */
bool shim_observed_replace(const char *name, zif_handler handler);
zif_handler shim_observed_next(const zend_function *function);

extern uint32_t shim_slow_query_ms;

/* ---- The header fields of curl's handles (curl_headers.c) ---- */

/* Part of libcurl's ABI: svc is built without curl.h. */
enum {
    SHIM_CURLOPT_URL = 10002,
    SHIM_CURLOPT_HTTPHEADER = 10023,
    SHIM_CURLINFO_EFFECTIVE_URL = 0x100001,
    SHIM_CURLINFO_RESPONSE_CODE = 0x200002,
    SHIM_CURLINFO_HTTP_VERSION = 0x20002e,
    SHIM_CURLINFO_EFFECTIVE_METHOD = 0x10003a,
};

struct curl_slist;

/* Functions of libcurl. */
typedef struct shim_curl {
    int (*setopt)(void *easy, int option, ...);
    int (*getinfo)(void *easy, int info, ...);
    struct curl_slist *(*append)(struct curl_slist *list, const char *line);
    void (*free_all)(struct curl_slist *list);
} shim_curl;
extern shim_curl shim_libcurl;

/* The header fields that a script has set; copies of a handle share them. */
typedef struct shim_curl_fields {
    unsigned references;
    /* Whether libcurl's option is left alone, because it is unknown or the script propagates a trace itself. */
    bool is_fixed;
    /* Whether the script sets `tracestate` itself. */
    bool has_state;
    struct curl_slist *list;
    /* The list that libcurl may still use, because it is unknown whether the script has replaced it; NULL if there is
     * none. */
    struct shim_curl_fields *former;
} shim_curl_fields;

/* The record of a handle. */
typedef struct shim_curl_handle {
    void *easy;
    /* NULL if the script has set none. */
    shim_curl_fields *fields;
    /* The fields that PHP is about to set. */
    shim_curl_fields *prepared;
    /* The additional lines for the current call. */
    struct curl_slist *extended;
    bool is_extended;
    /* Whether a call is in progress; and the multi handle that contains the handle. */
    bool is_busy;
    const zend_object *multi;
    /* The span of the transfer in the multi handle; 0 if there is none. */
    uint64_t span;
    /* The URL of the last transfer, and the one that redirects have led it to; NULL if there is none, or once the
     * script sets a URL. */
    char *url;
    char *redirected;
} shim_curl_handle;

/* Returns the record of `object`; NULL if it is no curl handle, or has no record and `is_made` is false. */
shim_curl_handle *shim_curl_handle_of(zend_object *object, bool is_made);
/* Returns the URL of the transfer that begins. libcurl reports the final URL of the last one. */
const char *shim_curl_handle_url(shim_curl_handle *handle);
/* Call after the script has set a URL, or may have. */
void shim_curl_handle_forget_url(zend_object *object);
/* Call before the script sets the header fields to these lines; NULL if they are unknown. */
void shim_curl_handle_prepare(zend_object *object, HashTable *lines);
/* Call before curl_setopt_array(), which may stop half-way. */
void shim_curl_handle_unsettle(zend_object *object);
/* Call after the script has set these lines, or PHP has refused to (`is_set` is false). */
void shim_curl_handle_settle(zend_object *object, HashTable *lines, bool is_set);
/* Call after the script has reset the handle. */
void shim_curl_handle_reset(zend_object *object);
/* Call after the script has copied the handle. */
void shim_curl_handle_copied(zend_object *object, zend_object *copy);
/* Adds lines for the duration of a call, unless the script propagates a trace itself; shim_curl_handle_retract()
 * removes them. */
void shim_curl_handle_extend(shim_curl_handle *handle, const shim_trace_fields *trace);
void shim_curl_handle_retract(shim_curl_handle *handle);
/* Makes the end of this multi handle remove the handles that it still contains. */
void shim_curl_multi_watch(zend_object *multi);
/* Returns false if curl is not loaded. `leave` removes a handle from its multi handle, which may already be freed. */
bool shim_curl_handles_install(void (*leave)(shim_curl_handle *handle));
/* Removes all handles from a multi handle. */
void shim_curl_multi_leave(const zend_object *multi);
/* Frees this thread's records; call after its objects were destroyed. */
void shim_curl_handles_forget(void);

/* ---- PHP's streams of `http:` and `https:` (http_streams.c) ---- */

/* Records these streams, and propagates the trace if `propagates`. Call before any thread runs PHP. */
void shim_http_streams_install(bool propagates);

/* ---- Calls of mysqli (mysqli_calls.c) ---- */

extern const shim_observers shim_mysqli_calls;
/* Frees this thread's records; call after its objects were destroyed. */
void shim_mysqli_calls_forget(void);

/* ---- Calls of PDO (pdo_calls.c) ---- */

extern const shim_observers shim_pdo_calls;

/* ---- Calls of pgsql (pgsql_calls.c) ---- */

extern const shim_observers shim_pgsql_calls;
/* Looks up libpq's functions for connections and results. */
void shim_pgsql_calls_install(void);

/* ---- Calls of phpredis and of memcached (store_calls.c) ---- */

extern const shim_observers shim_store_calls;

#endif
