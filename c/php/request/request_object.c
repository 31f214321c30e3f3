/* Svc\Request: a request as an object, bound to that request for good.
 *
 * Everything except the body is captured when the object is created, while the request's own state is in place, so the
 * object does not depend on which request is running when it is read. The body is read from the host on demand, at the
 * latest when the request ends, provided that the script keeps the object and there is enough memory. Each part is a
 * method and, under the same name, a read-only property. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/request/request.h"
#include "shim.h"

typedef enum part {
    PART_METHOD,
    PART_URI,
    PART_PATH,
    PART_QUERY,
    PART_HEADERS,
    PART_COOKIES,
    PART_PAYLOAD,
    PART_FILES,
    PART_BODY,
    PART_CLIENT,
    PARTS,
} part;

static const char *const names[PARTS] = {"method",  "uri",     "path",  "query", "headers",
                                         "cookies", "payload", "files", "body",  "client"};

typedef struct request_object {
    zval parts[PARTS];
    /* NULL once the request has ended. */
    shim_context *context;
    zend_object std;
} request_object;

static zend_class_entry *class;
static zend_object_handlers handlers;

static request_object *of(zend_object *object)
{
    return (request_object *)((char *)object - XtOffsetOf(request_object, std));
}

static zend_object *create(zend_class_entry *ce)
{
    request_object *request = zend_object_alloc(sizeof(*request), ce);
    for (int i = 0; i < PARTS; i++) {
        ZVAL_UNDEF(&request->parts[i]);
    }
    request->context = NULL;
    zend_object_std_init(&request->std, ce);
    object_properties_init(&request->std, ce);
    request->std.handlers = &handlers;
    return &request->std;
}

static void free_object(zend_object *object)
{
    for (int i = 0; i < PARTS; i++) {
        zval_ptr_dtor(&of(object)->parts[i]);
    }
    zend_object_std_dtor(object);
}

/* The body as received, forms included. */
static void read_body(request_object *request)
{
    zval *body = &request->parts[PART_BODY];
    if (Z_TYPE_P(body) != IS_UNDEF) {
        return;
    }
    shim_context *context = request->context;
    if (context == NULL) {
        /* The body was too large to be kept: see shim_request_object_detach(). */
        zend_throw_error(NULL,
                         "The body of a request that has ended is no longer available; read it while the request is active");
        return;
    }
    size_t size = context->body_length > 0 ? (size_t)context->body_length : 0;
    if (size == 0) {
        ZVAL_EMPTY_STRING(body);
        return;
    }
    zend_string *text = zend_string_alloc(size, 0);
    size_t used = 0;
    while (used < size) {
        size_t count = shim_host.io.read_body_at(context->host, ZSTR_VAL(text) + used, size - used, used);
        if (count == 0) {
            break;
        }
        used += count;
    }
    ZSTR_VAL(text)[used] = '\0';
    ZSTR_LEN(text) = used;
    ZVAL_NEW_STR(body, text);
}

static zval *part_of(request_object *request, part index)
{
    if (index == PART_BODY) {
        read_body(request);
    }
    return &request->parts[index];
}

static void put_view(zval *to, shim_view view)
{
    ZVAL_STRINGL(to, view.bytes != NULL ? view.bytes : "", view.length);
}

static void put_source(zval *to, int index)
{
    zval *source = &PG(http_globals)[index];
    if (Z_TYPE_P(source) == IS_ARRAY) {
        ZVAL_COPY(to, source);
    } else {
        ZVAL_EMPTY_ARRAY(to);
    }
}

static void put_headers(zval *to, void *host)
{
    shim_pairs fields = {0};
    shim_host.io.fields(host, &fields);
    array_init(to);
    for (size_t i = 0; i < fields.count; i++) {
        const shim_pair *field = &fields.pairs[i];
        zend_string *name = zend_string_init(field->name.bytes, field->name.length, 0);
        zend_string *lower = zend_string_tolower(name);
        zval value;
        put_view(&value, field->value);
        zend_symtable_update(Z_ARRVAL_P(to), lower, &value);
        zend_string_release(lower);
        zend_string_release(name);
    }
}

static void take(request_object *request, shim_context *context)
{
    shim_view target = {0};
    shim_view client = {0};
    shim_host.io.target(context->host, &target);
    shim_host.io.client(context->host, &client);
    request->context = context;
    const char *method = SG(request_info).request_method;
    ZVAL_STRING(&request->parts[PART_METHOD], method != NULL ? method : "");
    put_view(&request->parts[PART_URI], target);
    const char *mark = target.length > 0 ? memchr(target.bytes, '?', target.length) : NULL;
    shim_view path = {.bytes = target.bytes, .length = mark != NULL ? (size_t)(mark - target.bytes) : target.length};
    put_view(&request->parts[PART_PATH], path);
    put_source(&request->parts[PART_QUERY], TRACK_VARS_GET);
    put_source(&request->parts[PART_COOKIES], TRACK_VARS_COOKIE);
    put_source(&request->parts[PART_PAYLOAD], TRACK_VARS_POST);
    put_source(&request->parts[PART_FILES], TRACK_VARS_FILES);
    put_headers(&request->parts[PART_HEADERS], context->host);
    put_view(&request->parts[PART_CLIENT], client);
}

ZEND_METHOD(Svc_Request, current)
{
    ZEND_PARSE_PARAMETERS_NONE();
    shim_context *context = shim_current;
    if (context == NULL || context->is_boot || context->is_task || context->host == NULL) {
        zend_throw_error(NULL, "No request is active");
        RETURN_THROWS();
    }
    if (Z_TYPE(context->object) == IS_UNDEF) {
        shim_sealed_make(&context->object, class);
        take(of(Z_OBJ(context->object)), context);
    }
    RETURN_COPY(&context->object);
}

ZEND_METHOD(Svc_Request, __construct)
{
    ZEND_PARSE_PARAMETERS_NONE();
}

static int index_of(const zend_string *name)
{
    for (int i = 0; i < PARTS; i++) {
        if (zend_string_equals_cstr(name, names[i], strlen(names[i]))) {
            return i;
        }
    }
    return -1;
}

/* The function of all readers: the name of the called method selects the part. */
ZEND_METHOD(Svc_Request, read)
{
    ZEND_PARSE_PARAMETERS_NONE();
    int index = index_of(EX(func)->common.function_name);
    if (index >= 0) {
        const zval *own = part_of(of(Z_OBJ_P(ZEND_THIS)), (part)index);
        if (Z_TYPE_P(own) == IS_UNDEF) {
            RETURN_THROWS();
        }
        RETURN_COPY(own);
    }
}

static zval *read_property(zend_object *object, zend_string *name, int type, void **slot, zval *value)
{
    int index = index_of(name);
    if (index < 0) {
        return zend_std_read_property(object, name, type, slot, value);
    }
    const zval *own = part_of(of(object), (part)index);
    if (Z_TYPE_P(own) == IS_UNDEF) {
        return &EG(uninitialized_zval);
    }
    ZVAL_COPY(value, own);
    return value;
}

static int has_property(zend_object *object, zend_string *name, int how, void **slot)
{
    int index = index_of(name);
    if (index < 0) {
        return zend_std_has_property(object, name, how, slot);
    }
    return how == ZEND_PROPERTY_NOT_EMPTY ? zend_is_true(part_of(of(object), (part)index)) : 1;
}

static zval *write_property(zend_object *object, zend_string *name, zval *value, void **slot)
{
    if (index_of(name) >= 0) {
        zend_throw_error(NULL, "Cannot modify readonly property Svc\\Request::$%s", ZSTR_VAL(name));
        return value;
    }
    return zend_std_write_property(object, name, value, slot);
}

static zval *property_pointer(zend_object *object, zend_string *name, int type, void **slot)
{
    return index_of(name) >= 0 ? NULL : zend_std_get_property_ptr_ptr(object, name, type, slot);
}

static HashTable *debug_info(zend_object *object, int *is_temporary)
{
    HashTable *table = zend_new_array(PARTS);
    for (int i = 0; i < PARTS; i++) {
        const bool is_gone = i == PART_BODY && of(object)->context == NULL;
        zval *value = is_gone ? &of(object)->parts[i] : part_of(of(object), (part)i);
        if (Z_TYPE_P(value) == IS_UNDEF) {
            value = &EG(uninitialized_zval);
        }
        Z_TRY_ADDREF_P(value);
        zend_hash_str_update(table, names[i], strlen(names[i]), value);
    }
    *is_temporary = 1;
    return table;
}

/* Memory that is left to the worker's other requests. */
enum { SLACK = 1024 * 1024 };

/* Whether a body of this size fits into PHP's memory limit. */
static bool has_room_for(int64_t size)
{
    return PG(memory_limit) <= 0 || (int64_t)zend_memory_usage(true) + size + SLACK < (int64_t)PG(memory_limit);
}

void shim_request_object_detach(shim_context *context)
{
    if (Z_TYPE(context->object) == IS_UNDEF) {
        return;
    }
    request_object *request = of(Z_OBJ(context->object));
    zval object;
    ZVAL_COPY_VALUE(&object, &context->object);
    ZVAL_UNDEF(&context->object);
    /* The response is complete: keeping the object must not exceed the memory limit. */
    if (Z_REFCOUNT(object) > 1 && (context->body_length <= 0 || has_room_for(context->body_length))) {
        read_body(request);
    }
    request->context = NULL;
    zval_ptr_dtor(&object);
}

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_current, 0, 0, Svc\\Request, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_INFO_EX(arginfo_construct, 0, 0, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_text, 0, 0, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_list, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

#define READER(name, type) ZEND_NAMED_ME(name, zim_Svc_Request_read, arginfo_##type, ZEND_ACC_PUBLIC)

static const zend_function_entry methods[] = {
    ZEND_ME(Svc_Request, __construct, arginfo_construct, ZEND_ACC_PRIVATE)
    ZEND_ME(Svc_Request, current, arginfo_current, ZEND_ACC_PUBLIC | ZEND_ACC_STATIC)
    READER(method, text)
    READER(uri, text)
    READER(path, text)
    READER(query, list)
    READER(headers, list)
    READER(cookies, list)
    READER(payload, list)
    READER(files, list)
    READER(body, text)
    READER(client, text)
    ZEND_FE_END
};

void shim_request_class_register(void)
{
    class = shim_sealed_class("Svc\\Request", methods, create);
    memcpy(&handlers, zend_get_std_object_handlers(), sizeof(handlers));
    handlers.offset = XtOffsetOf(request_object, std);
    handlers.free_obj = free_object;
    handlers.clone_obj = NULL;
    handlers.read_property = read_property;
    handlers.has_property = has_property;
    handlers.write_property = write_property;
    handlers.get_property_ptr_ptr = property_pointer;
    handlers.get_debug_info = debug_info;
}
