/* Calls of functions and methods that talk to a server, and are recorded as spans. */
#ifndef SVC_SHIM_OBSERVED_H
#define SVC_SHIM_OBSERVED_H

#include "compat.h"
#include "php/context/host.h"

#include <stdbool.h>

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
void shim_observed_ask(zend_object *object, const char *class_name, const char *method, zval *answer);
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

#endif
