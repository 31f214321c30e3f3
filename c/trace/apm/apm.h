/* Calls of databases, stores and HTTP servers as spans. */
#ifndef SVC_TRACE_APM_H
#define SVC_TRACE_APM_H

#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "shim.h"

/* ---- The plugin `apm` (apm.c) ---- */

/* Call after PHP has started and all other handlers of functions have been replaced; `place` is the slot for extensions
 * in functions. Returns false if out of memory. */
bool shim_apm_install(const shim_options *options, int place);
/* The hooks of the plugin: when a request has ended, frees the records of its thread, whose objects were destroyed. */
extern const shim_request_hooks shim_apm_request_hooks;

/* ---- Transfers of curl (curl_calls.c) ---- */

/* Observes curl, if it is loaded. Its requests propagate the trace if `propagates`. */
void shim_curl_calls_install(bool propagates);
/* Frees this thread's records; call after its objects were destroyed. */
void shim_curl_calls_forget(void);

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

/* Whether the server's interpretation of a backslash matters. */
static inline bool shim_observed_has_backslash(const shim_client_call *call)
{
    return !call->is_prepared && call->text.length > 0 && memchr(call->text.bytes, '\\', call->text.length) != NULL;
}

/* Whether the call is cut short: its script has called exit() in it, or its fiber is being destroyed. */
static inline bool shim_observed_is_cut(const zend_object *thrown_before)
{
    const zend_object *thrown = EG(exception);
    return thrown != NULL && thrown != thrown_before && shim_is_exit(thrown);
}

/* Begins a span. Returns its number; 0 if the call is not recorded. */
uint64_t shim_observed_begin(void);
/* Installs the rows of each list for their functions. Call once, before any thread runs PHP. Returns false if out of
 * memory. */
bool shim_observed_install(const shim_observers *const *all, size_t count, int place);

extern uint32_t shim_slow_query_ms;

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
