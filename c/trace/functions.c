/* The functions of the namespace Svc\Trace. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "trace/trace.h"

/* Begins a span below the current one. Returns its number; 0 if it is not recorded. */
static uint64_t begin(const zend_string *name, const shim_attributes *attributes, shim_span_kind kind)
{
    void *host = shim_request_host();
    if (host == NULL) {
        return 0;
    }
    const uint64_t span = shim_host.span.begin(host, shim_current_span, shim_view_of_string(name), kind);
    for (size_t i = 0; span != 0 && i < attributes->count; i++) {
        shim_host.span.set_attribute(host, span, &attributes->list[i]);
    }
    return span;
}

/* Ends the span of a body that has returned or thrown. After exit(), or in a fiber that is freed before its end, the
 * body has done neither, which is not a failure. */
static void end(uint64_t span)
{
    zend_object *exception = EG(exception);
    const bool is_cut = exception != NULL && shim_is_exit(exception);
    if (exception != NULL && !is_cut) {
        shim_span_record(span, exception, NULL, 0);
        shim_host.span.set_status(shim_current->host, span, SHIM_SPAN_ERROR, shim_view_of("", 0));
    }
    shim_host.span.end(shim_current->host, span, is_cut);
}

/* Calls the body in the span. A bailout leaves the span open; it ends with its request. */
static void call_in(uint64_t span, zend_fcall_info *call, zend_fcall_info_cache *cache, zval *result)
{
    const uint64_t before = shim_current_span;
    zval object;
    ZVAL_UNDEF(&object);
    /* A body with a required parameter gets the span; one without may be any function. The method behind __call() is
     * not known before the call. */
    const zend_function *function = cache->function_handler;
    if (function != NULL && function->common.required_num_args > 0) {
        shim_span_object(&object, span);
        call->params = &object;
        call->param_count = 1;
    }
    if (span != 0) {
        shim_current_span = span;
    }
    call->retval = result;
    (void)zend_call_function(call, cache);
    shim_current_span = before;
    if (span != 0 && shim_request_host() != NULL) {
        end(span);
    }
    zval_ptr_dtor(&object);
}

/* Svc\Trace\span(string $name, callable $body, array $attributes = []): mixed */
static ZEND_NAMED_FUNCTION(trace_span)
{
    zend_string *name;
    zend_fcall_info call;
    zend_fcall_info_cache cache;
    HashTable *values = NULL;
    shim_attributes attributes;
    ZEND_PARSE_PARAMETERS_START(2, 3)
        Z_PARAM_STR(name)
        Z_PARAM_FUNC(call, cache)
        Z_PARAM_OPTIONAL
        Z_PARAM_ARRAY_HT(values)
    ZEND_PARSE_PARAMETERS_END();
    if (!shim_attributes_take(&attributes, values, 3)) {
        RETURN_THROWS();
    }
    const uint64_t span = begin(name, &attributes, SHIM_SPAN_INTERNAL);
    shim_attributes_free(&attributes);
    zval result;
    ZVAL_UNDEF(&result);
    call_in(span, &call, &cache, &result);
    if (Z_TYPE(result) == IS_UNDEF) {
        return;
    }
    if (Z_ISREF(result)) {
        zend_unwrap_reference(&result);
    }
    RETURN_COPY_VALUE(&result);
}

static bool kind_of(const zend_string *name, shim_span_kind *kind)
{
    static const struct {
        const char *name;
        shim_span_kind kind;
    } kinds[] = {
        {"internal", SHIM_SPAN_INTERNAL}, {"server", SHIM_SPAN_SERVER},     {"client", SHIM_SPAN_CLIENT},
        {"producer", SHIM_SPAN_PRODUCER}, {"consumer", SHIM_SPAN_CONSUMER},
    };
    for (size_t i = 0; i < SHIM_COUNT(kinds); i++) {
        if (zend_string_equals_cstr(name, kinds[i].name, strlen(kinds[i].name))) {
            *kind = kinds[i].kind;
            return true;
        }
    }
    return false;
}

/* Svc\Trace\start(string $name, array $attributes = [], string $kind = 'internal'): Svc\Trace\Span */
static ZEND_NAMED_FUNCTION(trace_start)
{
    zend_string *name, *kind_name = NULL;
    HashTable *values = NULL;
    shim_attributes attributes;
    shim_span_kind kind = SHIM_SPAN_INTERNAL;
    ZEND_PARSE_PARAMETERS_START(1, 3)
        Z_PARAM_STR(name)
        Z_PARAM_OPTIONAL
        Z_PARAM_ARRAY_HT(values)
        Z_PARAM_STR(kind_name)
    ZEND_PARSE_PARAMETERS_END();
    if (kind_name != NULL && !kind_of(kind_name, &kind)) {
        zend_argument_value_error(3, "must be \"internal\", \"server\", \"client\", \"producer\", or \"consumer\"");
        RETURN_THROWS();
    }
    if (!shim_attributes_take(&attributes, values, 2)) {
        RETURN_THROWS();
    }
    const uint64_t span = begin(name, &attributes, kind);
    shim_attributes_free(&attributes);
    shim_span_object(return_value, span);
}

/* Svc\Trace\current(): Svc\Trace\Span */
static ZEND_NAMED_FUNCTION(trace_current)
{
    ZEND_PARSE_PARAMETERS_NONE();
    void *host = shim_request_host();
    const uint64_t span = host == NULL ? 0 : shim_current_span != 0 ? shim_current_span : shim_host.span.own(host);
    shim_span_object(return_value, span);
}

/* Svc\Trace\route(string $route): void */
static ZEND_NAMED_FUNCTION(trace_route)
{
    static const char name[] = "http.route";
    zend_string *route;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(route)
    ZEND_PARSE_PARAMETERS_END();
    void *host = shim_request_host();
    const uint64_t own = host != NULL ? shim_host.span.own(host) : 0;
    if (own == 0 || ZSTR_LEN(route) == 0) {
        return;
    }
    const shim_scalar value = {.text = shim_view_of_string(route)};
    const shim_attribute attribute = {
        .name = shim_view_of(name, sizeof(name) - 1),
        .type = SHIM_SCALAR_TEXT,
        .values = &value,
        .count = 1,
    };
    shim_host.span.set_attribute(host, own, &attribute);
}

/* Svc\Trace\traceparent(): string */
static ZEND_NAMED_FUNCTION(trace_traceparent)
{
    ZEND_PARSE_PARAMETERS_NONE();
    shim_view text = {0};
    if (shim_request_host() != NULL) {
        shim_host.span.traceparent(shim_current->host, shim_current_span, &text);
    }
    RETURN_STRINGL(text.bytes != NULL ? text.bytes : "", text.length);
}

/* Svc\Trace\tracestate(): string */
static ZEND_NAMED_FUNCTION(trace_tracestate)
{
    ZEND_PARSE_PARAMETERS_NONE();
    shim_view text = {0};
    if (shim_request_host() != NULL) {
        shim_host.span.tracestate(shim_current->host, &text);
    }
    RETURN_STRINGL(text.length > 0 ? text.bytes : "", text.length);
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_span, 0, 2, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, body, IS_CALLABLE, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, attributes, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_start, 0, 1, Svc\\Trace\\Span, 0)
    ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, attributes, IS_ARRAY, 0, "[]")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, kind, IS_STRING, 0, "\'internal\'")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_current, 0, 0, Svc\\Trace\\Span, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_route, 0, 1, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO(0, route, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_text, 0, 0, IS_STRING, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry functions[] = {
    ZEND_NS_NAMED_FE("Svc\\Trace", span, trace_span, arginfo_span)
    ZEND_NS_NAMED_FE("Svc\\Trace", start, trace_start, arginfo_start)
    ZEND_NS_NAMED_FE("Svc\\Trace", current, trace_current, arginfo_current)
    ZEND_NS_NAMED_FE("Svc\\Trace", route, trace_route, arginfo_route)
    ZEND_NS_NAMED_FE("Svc\\Trace", traceparent, trace_traceparent, arginfo_text)
    ZEND_NS_NAMED_FE("Svc\\Trace", tracestate, trace_tracestate, arginfo_text)
    PHP_FE_END
};

static bool declare(zend_module_entry *module)
{
    (void)module;
    shim_span_class_register();
    (void)zend_register_functions(NULL, functions, NULL, MODULE_PERSISTENT);
    return true;
}

const shim_request_hooks shim_trace_request_hooks = {
    .declare = declare,
    .fail = shim_failure_note,
};
