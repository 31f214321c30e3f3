/* Recorded calls.
 *
 * The handler of each observed function is replaced before all other replacements (worker/connections/calls.c), which call
 * this one once the request has the connection. The handler runs however a function is called (by any name, by a
 * subclass, as a closure, by reflection). The engine's observers would do the same, but change the code of every call
 * in every script, and keep a chain of frames that a bailout leaves behind; functions without a span cost nothing this
 * way.
 *
 * Arguments are read, and never changed. The host ends spans that a bailout skips, with their request. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "trace/apm/apm.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- the header fields of W3C Trace Context ---- */

shim_trace_fields shim_trace_fields_of(uint64_t span)
{
    shim_trace_fields fields = {0};
    shim_host.span.traceparent(shim_current->host, span != 0 ? span : shim_current_span, &fields.parent);
    shim_host.span.tracestate(shim_current->host, &fields.state);
    return fields;
}

/* Whether a line sets a field: a colon or a semicolon follows the name. White space in front of it counts too: libcurl
 * and PHP decide what it means. */
static bool sets(const char *line, size_t length, const char *name)
{
    const size_t name_length = strlen(name);
    while (length > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        length--;
    }
    return length > name_length && strncasecmp(line, name, name_length) == 0 && memchr(":; \t", line[name_length], 4) != NULL;
}

bool shim_is_traceparent(const char *line, size_t length)
{
    return sets(line, length, SHIM_TRACEPARENT);
}

bool shim_is_tracestate(const char *line, size_t length)
{
    return sets(line, length, SHIM_TRACESTATE);
}

/* ---- recorded calls ---- */

uint32_t shim_slow_query_ms;

/* The slot for extensions of the engine in functions. */
static int place = -1;

/* The data in that slot. */
typedef struct replaced {
    zif_handler next;
    const shim_observer *observer;
} replaced;

static const replaced *replaced_of(const zend_function *function)
{
    return function->internal_function.reserved[place];
}

/* ---- the arguments of a call ---- */

zval *shim_observed_argument(const shim_observed *observed, uint32_t number)
{
    return shim_argument(observed->execute_data, number);
}

shim_view shim_observed_text(const shim_observed *observed, uint32_t number)
{
    const zval *argument = shim_observed_argument(observed, number);
    return argument != NULL && Z_TYPE_P(argument) == IS_STRING ? shim_view_of_string(Z_STR_P(argument)) : (shim_view){0};
}

zend_object *shim_observed_subject(const shim_observed *observed)
{
    const zend_execute_data *execute_data = observed->execute_data;
    if (Z_TYPE(EX(This)) == IS_OBJECT) {
        return Z_OBJ(EX(This));
    }
    /* A static method has no subject: its arguments are not objects of its class. */
    return observed->observer->class_name == NULL ? shim_argument_object(execute_data, 1) : NULL;
}

zval *shim_observed_thrown(const shim_observed *observed, const char *name, zval *held)
{
    zval *value = zend_read_property(observed->thrown->ce, observed->thrown, name, strlen(name), true, held);
    ZVAL_DEREF(value);
    return value;
}

void shim_observed_call_method(zend_object *object, const char *class_name, const char *method, zval *answer)
{
    const bool was_thrown = EG(exception) != NULL;
    if (!shim_builtin_call(class_name, method, object, answer, NULL, 0) && !was_thrown && EG(exception) != NULL) {
        /* The call itself meets the same problem. */
        zend_clear_exception();
    }
}

shim_view shim_observed_number(shim_observed *observed, zend_long number)
{
    const int length = snprintf(observed->text, sizeof(observed->text), ZEND_LONG_FMT, number);
    return shim_view_of(observed->text, (size_t)length);
}

/* ---- a call ---- */

uint64_t shim_observed_begin(void)
{
    void *host = shim_request_host();
    return host != NULL && !shim_in_switch ? shim_host.span.begin(host, shim_current_span, (shim_view){0}, SHIM_SPAN_CLIENT)
                                            : 0;
}

static void describe(shim_observed *observed)
{
    const shim_observer *observer = observed->observer;
    shim_client_call call = {
        .kind = observer->kind,
        .system = shim_view_of_cstr(observer->system),
        .operation = shim_view_of_cstr(observer->operation),
        .text = shim_observed_text(observed, observer->text),
        .is_prepared = observer->is_prepared,
    };
    observer->describe(observed, &call);
    if (observed->is_silent) {
        shim_host.client.discard(shim_current->host, observed->span);
    } else {
        shim_host.client.describe(shim_current->host, observed->span, &call);
    }
    zval_ptr_dtor(&observed->held[0]);
    zval_ptr_dtor(&observed->held[1]);
}

static void finish(shim_observed *observed, const zend_object *thrown_before)
{
    const shim_observer *observer = observed->observer;
    shim_client_end end = {.kind = observer->kind, .slow_ms = shim_slow_query_ms};
    if (shim_request_host() == NULL) {
        return;
    }
    if (shim_observed_is_cut(thrown_before)) {
        end.is_cut = true;
        shim_host.client.finish(shim_current->host, observed->span, &end);
        return;
    }
    if (EG(exception) != NULL && EG(exception) != thrown_before) {
        observed->thrown = EG(exception);
        end.failed = true;
        end.error = shim_view_of_string(observed->thrown->ce->name);
    }
    if (observer->kind == SHIM_CLIENT_STORE && Z_TYPE_P(observed->return_value) == IS_OBJECT &&
        Z_OBJ_P(observed->return_value) == shim_observed_subject(observed)) {
        /* phpredis has queued the command, and returns itself; exec() sends it. An object of another class is a value
         * from the store. */
        shim_host.client.discard(shim_current->host, observed->span);
        return;
    }
    ZVAL_UNDEF(&observed->held[0]);
    observer->judge(observed, &end);
    shim_host.client.finish(shim_current->host, observed->span, &end);
    zval_ptr_dtor(&observed->held[0]);
}

static ZEND_NAMED_FUNCTION(observe)
{
    const replaced *own = replaced_of(EX(func));
    shim_observed observed = {
        .observer = own->observer, .execute_data = execute_data, .return_value = return_value, .span = shim_observed_begin()};
    if (observed.span == 0) {
        own->next(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    const zend_object *thrown_before = EG(exception);
    describe(&observed);
    own->next(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (!observed.is_silent) {
        finish(&observed, thrown_before);
    }
}

/* ---- installation ---- */

static bool replace(zend_function *function, const shim_observer *observer)
{
    if (function->type != ZEND_INTERNAL_FUNCTION || (function->common.fn_flags & ZEND_ACC_ABSTRACT) != 0 ||
        replaced_of(function) != NULL) {
        return true;
    }
    /* Lives as long as the process, like the function. */
    replaced *own = malloc(sizeof(*own));
    if (own == NULL) {
        return false;
    }
    *own = (replaced){.next = shim_handler_replace(function, observe), .observer = observer};
    function->internal_function.reserved[place] = own;
    return true;
}

static bool is_same(const char *one, const char *other)
{
    return one == NULL || other == NULL ? one == other : strcmp(one, other) == 0;
}

static const shim_observer *observer_of(const shim_observers *const *all, size_t count, const char *class_name,
                                        const char *name)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t row = 0; row < all[i]->count; row++) {
            const shim_observer *observer = &all[i]->rows[row];
            if (is_same(observer->class_name, class_name) && is_same(observer->name, name)) {
                return observer;
            }
        }
        const shim_observer *other = all[i]->other != NULL ? all[i]->other(class_name, name) : NULL;
        if (other != NULL) {
            return other;
        }
    }
    return NULL;
}

static bool install_in(const shim_observers *const *all, size_t count, HashTable *functions)
{
    zend_string *name;
    zend_function *function;
    ZEND_HASH_FOREACH_STR_KEY_PTR(functions, name, function) {
        if (name == NULL || function->type != ZEND_INTERNAL_FUNCTION) {
            continue;
        }
        char class_name[64] = "";
        const zend_class_entry *scope = function->common.scope;
        if (scope != NULL) {
            zend_str_tolower_copy(class_name, ZSTR_VAL(scope->name), MIN(ZSTR_LEN(scope->name), sizeof(class_name) - 1));
        }
        const shim_observer *observer = observer_of(all, count, scope != NULL ? class_name : NULL, ZSTR_VAL(name));
        if (observer != NULL && !replace(function, observer)) {
            return false;
        }
    } ZEND_HASH_FOREACH_END();
    return true;
}

bool shim_observed_install(const shim_observers *const *all, size_t count, int room)
{
    zend_class_entry *class;
    place = room;
    ZEND_HASH_FOREACH_PTR(CG(class_table), class) {
        if (!install_in(all, count, &class->function_table)) {
            return false;
        }
    } ZEND_HASH_FOREACH_END();
    return install_in(all, count, CG(function_table));
}
