/* Svc\Trace\Span: a handle.
 *
 * The span itself belongs to the host, which identifies it by its number while it is open and its request runs; calls
 * with another number have no effect. An object may therefore be kept, even by another request, and no part of the span
 * leaks with it. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "trace/trace.h"

typedef struct span_object {
    uint64_t span;
    zend_object std;
} span_object;

static zend_class_entry *class;
static zend_object_handlers handlers;

/* The objects of this thread's spans, by number: each span has one object. */
static __thread HashTable objects;
static __thread bool has_objects;

static span_object *of(zend_object *object)
{
    return (span_object *)((char *)object - XtOffsetOf(span_object, std));
}

static zend_object *create(zend_class_entry *ce)
{
    span_object *own = zend_object_alloc(sizeof(*own), ce);
    own->span = 0;
    zend_object_std_init(&own->std, ce);
    object_properties_init(&own->std, ce);
    own->std.handlers = &handlers;
    return &own->std;
}

static void free_object(zend_object *object)
{
    if (of(object)->span != 0 && has_objects) {
        zend_hash_index_del(&objects, of(object)->span);
    }
    zend_object_std_dtor(object);
}

void shim_span_object(zval *object, uint64_t span)
{
    if (span != 0 && !has_objects) {
        zend_hash_init(&objects, 8, NULL, NULL, true);
        has_objects = true;
    }
    zend_object *known = span != 0 ? zend_hash_index_find_ptr(&objects, span) : NULL;
    if (known != NULL) {
        ZVAL_OBJ_COPY(object, known);
        return;
    }
    shim_sealed_make(object, class);
    if (span != 0) {
        of(Z_OBJ_P(object))->span = span;
        zend_hash_index_update_ptr(&objects, span, Z_OBJ_P(object));
    }
}

void shim_span_objects_stop(void)
{
    if (has_objects) {
        zend_hash_destroy(&objects);
        has_objects = false;
    }
}

/* Returns the number of a span that the host may know; 0 outside a request. */
static uint64_t own(zval *object)
{
    return shim_request_host() != NULL ? of(Z_OBJ_P(object))->span : 0;
}

/* setAttribute(string $name, bool|int|float|string|array $value): static */
ZEND_METHOD(Svc_Trace_Span, setAttribute)
{
    zend_string *name;
    zval *value;
    shim_attributes attributes;
    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_STR(name)
        Z_PARAM_ZVAL(value)
    ZEND_PARSE_PARAMETERS_END();
    if (!shim_attribute_take(&attributes, name, value, 2)) {
        RETURN_THROWS();
    }
    const uint64_t span = own(ZEND_THIS);
    if (span != 0) {
        shim_host.span.set_attribute(shim_current->host, span, attributes.list);
    }
    shim_attributes_free(&attributes);
    RETURN_COPY(ZEND_THIS);
}

/* addEvent(string $name, array $attributes = []): static */
ZEND_METHOD(Svc_Trace_Span, addEvent)
{
    zend_string *name;
    HashTable *values = NULL;
    shim_attributes attributes;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(name)
        Z_PARAM_OPTIONAL
        Z_PARAM_ARRAY_HT(values)
    ZEND_PARSE_PARAMETERS_END();
    if (!shim_attributes_take(&attributes, values, 2)) {
        RETURN_THROWS();
    }
    const uint64_t span = own(ZEND_THIS);
    if (span != 0) {
        shim_host.span.add_event(shim_current->host, span, shim_view_of_string(name), attributes.list, attributes.count);
    }
    shim_attributes_free(&attributes);
    RETURN_COPY(ZEND_THIS);
}

void shim_span_record(uint64_t span, zend_object *exception, const shim_attribute *attributes, size_t count)
{
    smart_str trace = {0};
    shim_exception_trace(&trace, exception);
    const shim_scalar texts[] = {{.text = shim_exception_class(exception)},
                                 {.text = shim_exception_message(exception)},
                                 {.text = shim_trace_text_view(&trace)}};
    static const char *const names[] = {"exception.type", "exception.message", "exception.stacktrace"};
    enum { OWN_ATTRIBUTES = SHIM_COUNT(names) };
    shim_attribute *all = malloc((OWN_ATTRIBUTES + count) * sizeof(*all));
    if (all != NULL) {
        for (int i = 0; i < OWN_ATTRIBUTES; i++) {
            all[i] = (shim_attribute){.name = shim_view_of_cstr(names[i]), .type = SHIM_SCALAR_TEXT,
                                      .values = &texts[i], .count = 1};
        }
        if (count > 0) {
            memcpy(all + OWN_ATTRIBUTES, attributes, count * sizeof(*all));
        }
        shim_host.span.add_event(shim_current->host, span, shim_view_of_cstr("exception"), all, OWN_ATTRIBUTES + count);
        free(all);
    }
    shim_trace_text_free(&trace);
}

/* recordException(Throwable $exception, array $attributes = []): static */
ZEND_METHOD(Svc_Trace_Span, recordException)
{
    zend_object *exception;
    HashTable *values = NULL;
    shim_attributes attributes;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_OBJ_OF_CLASS(exception, zend_ce_throwable)
        Z_PARAM_OPTIONAL
        Z_PARAM_ARRAY_HT(values)
    ZEND_PARSE_PARAMETERS_END();
    if (!shim_attributes_take(&attributes, values, 2)) {
        RETURN_THROWS();
    }
    const uint64_t span = own(ZEND_THIS);
    if (span != 0) {
        shim_span_record(span, exception, attributes.list, attributes.count);
    }
    shim_attributes_free(&attributes);
    RETURN_COPY(ZEND_THIS);
}

/* setStatus(string $status, string $description = ''): static */
ZEND_METHOD(Svc_Trace_Span, setStatus)
{
    zend_string *status, *description = ZSTR_EMPTY_ALLOC();
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(status)
        Z_PARAM_OPTIONAL
        Z_PARAM_STR(description)
    ZEND_PARSE_PARAMETERS_END();
    shim_span_status code;
    if (zend_string_equals_literal(status, "unset")) {
        code = SHIM_SPAN_UNSET;
    } else if (zend_string_equals_literal(status, "ok")) {
        code = SHIM_SPAN_OK;
    } else if (zend_string_equals_literal(status, "error")) {
        code = SHIM_SPAN_ERROR;
    } else {
        zend_argument_value_error(1, "must be \"unset\", \"ok\", or \"error\"");
        RETURN_THROWS();
    }
    const uint64_t span = own(ZEND_THIS);
    if (span != 0) {
        shim_host.span.set_status(shim_current->host, span, code, shim_view_of_string(description));
    }
    RETURN_COPY(ZEND_THIS);
}

/* end(): void */
ZEND_METHOD(Svc_Trace_Span, end)
{
    ZEND_PARSE_PARAMETERS_NONE();
    const uint64_t span = own(ZEND_THIS);
    if (span != 0) {
        shim_host.span.end(shim_current->host, span, false);
    }
}

ZEND_METHOD(Svc_Trace_Span, __construct)
{
    ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_BEGIN_ARG_INFO_EX(arginfo_construct, 0, 0, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_set_attribute, 0, 2, IS_STATIC, 0)
    ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
    ZEND_ARG_TYPE_MASK(0, value, MAY_BE_BOOL | MAY_BE_LONG | MAY_BE_DOUBLE | MAY_BE_STRING | MAY_BE_ARRAY, NULL)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_add_event, 0, 1, IS_STATIC, 0)
    ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, attributes, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_record_exception, 0, 1, IS_STATIC, 0)
    ZEND_ARG_OBJ_INFO(0, exception, Throwable, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, attributes, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_set_status, 0, 1, IS_STATIC, 0)
    ZEND_ARG_TYPE_INFO(0, status, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, description, IS_STRING, 0, "\'\'")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_end, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry methods[] = {
    ZEND_ME(Svc_Trace_Span, __construct, arginfo_construct, ZEND_ACC_PRIVATE)
    ZEND_ME(Svc_Trace_Span, setAttribute, arginfo_set_attribute, ZEND_ACC_PUBLIC)
    ZEND_ME(Svc_Trace_Span, addEvent, arginfo_add_event, ZEND_ACC_PUBLIC)
    ZEND_ME(Svc_Trace_Span, recordException, arginfo_record_exception, ZEND_ACC_PUBLIC)
    ZEND_ME(Svc_Trace_Span, setStatus, arginfo_set_status, ZEND_ACC_PUBLIC)
    ZEND_ME(Svc_Trace_Span, end, arginfo_end, ZEND_ACC_PUBLIC)
    ZEND_FE_END
};

void shim_span_class_register(void)
{
    class = shim_sealed_class("Svc\\Trace\\Span", methods, create);
    memcpy(&handlers, &std_object_handlers, sizeof(handlers));
    handlers.offset = XtOffsetOf(span_object, std);
    handlers.free_obj = free_object;
    handlers.clone_obj = NULL;
    /* Two spans are never equal. */
    handlers.compare = zend_objects_not_comparable;
}

/* ---- the current span of each fiber ---- */

/* A fiber that a script creates begins in the span in which it is started, and the spans that it enters afterwards are
 * its own. A request begins without a span. */

/* The slot in which the contexts of suspended fibers keep their span. */
static int place = -1;

int shim_trace_slot(void)
{
    return place;
}

static void change_fiber(zend_fiber_context *from, zend_fiber_context *to)
{
    from->reserved[place] = (void *)(uintptr_t)shim_current_span;
    if (to->status != ZEND_FIBER_STATUS_INIT || to->kind != zend_ce_fiber) {
        shim_current_span = (uintptr_t)to->reserved[place];
    }
}

bool shim_span_fibers_follow(void)
{
    place = zend_get_resource_handle("svc traces");
    if (place < 0) {
        return false;
    }
    zend_observer_fiber_switch_register(change_fiber);
    return true;
}
