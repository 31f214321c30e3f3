/* Calls of functions and methods that talk to somebody else, and are recorded as spans. */
#ifndef SVC_SHIM_OBSERVED_H
#define SVC_SHIM_OBSERVED_H

#include "compat.h"
#include "context/host.h"

#include <stdbool.h>

struct shim_observer;

/* A call that is being recorded; on its caller's stack. */
typedef struct shim_observed {
    const struct shim_observer *observer;
    zend_execute_data *execute_data;
    zval *return_value;
    uint64_t span;
    /* The call sends nothing, and is not recorded; for describe() to say. */
    bool is_silent;
    /* The call has thrown this. */
    zend_object *thrown;
    /* Room for texts, and for values that texts are views of. */
    char text[48];
    zval held[2];
} shim_observed;

/* What is recorded of a function. Names are in lower case. */
typedef struct shim_observer {
    /* NULL for a function. */
    const char *class_name;
    const char *name;
    shim_client_kind kind;
    /* The database, as the host knows it. */
    const char *system;
    /* What the function does, unless its text says that. */
    const char *operation;
    /* The argument with the text, from 1; 0 if there is none. A function that takes its connection as an argument has it
     * first. */
    uint32_t text;
    bool is_prepared;
    void (*describe)(shim_observed *observed, shim_client_call *call);
    void (*judge)(shim_observed *observed, shim_client_end *end);
} shim_observer;

/* The rows of each extension. */
typedef struct shim_observers {
    const shim_observer *rows;
    size_t count;
    /* For functions without a row; may be NULL. */
    const shim_observer *(*other)(const char *class_name, const char *name);
} shim_observers;

/* An argument without references; NULL if it was not given. */
zval *shim_observed_argument(const shim_observed *observed, uint32_t number);
/* The same if it is a text; empty otherwise. */
shim_view shim_observed_text(const shim_observed *observed, uint32_t number);
/* The object that the call is about: that of the method, or the first argument of a function; NULL if there is none. */
zend_object *shim_observed_subject(const shim_observed *observed);
/* A member of the exception that the call has thrown. */
zval *shim_observed_thrown(const shim_observed *observed, const char *name, zval *held);
/* Calls one of PHP's own methods on an object, in favour of nobody but the span; undefined if that is not possible. */
void shim_observed_ask(zend_object *object, const char *class_name, const char *method, zval *answer);
/* A number as a text, in the room of the call. */
shim_view shim_observed_number(shim_observed *observed, zend_long number);

static inline shim_view shim_observed_view(const zend_string *text)
{
    return shim_view_of(ZSTR_VAL(text), ZSTR_LEN(text));
}

/* Whether it matters what the server takes a backslash for. */
static inline bool shim_observed_has_backslash(const shim_client_call *call)
{
    return !call->is_prepared && call->text.length > 0 && memchr(call->text.bytes, '\\', call->text.length) != NULL;
}

/* Whether the call is being left in the middle: its script has called exit() in it, or its fiber is being destroyed. */
static inline bool shim_observed_is_cut(const zend_object *thrown_before)
{
    const zend_object *thrown = EG(exception);
    return thrown != NULL && thrown != thrown_before && (zend_is_unwind_exit(thrown) || zend_is_graceful_exit(thrown));
}

/* The number of the new span; 0 if the call is not recorded. */
uint64_t shim_observed_begin(void);
/* The rows of each of these find their functions. Called once, before any thread runs PHP. Returns false if there is no
 * memory. */
bool shim_observed_install(const shim_observers *const *all, size_t count, int place);
/* Replaces the handler of a function by one that calls shim_observed_next() in the end. */
bool shim_observed_replace(const char *name, zif_handler handler);
zif_handler shim_observed_next(const zend_function *function);

extern uint32_t shim_slow_query_ms;

#endif
