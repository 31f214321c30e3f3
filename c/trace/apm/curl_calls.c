/* Transfers of curl: a span from curl_exec() to its return, or from curl_multi_add_handle() to the message with the
 * transfer's result, and the trace among its header fields. */
#include "compat.h"
#include "php/context/context.h"
#include "trace/apm/apm.h"

static bool passes_on;

static zend_object *object_at(zend_execute_data *execute_data, uint32_t number)
{
    if (ZEND_CALL_NUM_ARGS(execute_data) < number) {
        return NULL;
    }
    const zval *argument = ZEND_CALL_ARG(execute_data, number);
    ZVAL_DEREF(argument);
    return Z_TYPE_P(argument) == IS_OBJECT ? Z_OBJ_P(argument) : NULL;
}

/* ---- options ---- */

/* Returns the number of the option; 0 if it is invalid. */
static zend_long option_of(zval *option)
{
    ZVAL_DEREF(option);
    return Z_TYPE_P(option) <= IS_STRING ? zval_get_long(option) : 0;
}

static HashTable *array_of(zval *value)
{
    ZVAL_DEREF(value);
    return Z_TYPE_P(value) == IS_ARRAY ? Z_ARRVAL_P(value) : NULL;
}

static ZEND_NAMED_FUNCTION(set_option)
{
    const zend_long option = ZEND_CALL_NUM_ARGS(execute_data) == 3 ? option_of(ZEND_CALL_ARG(execute_data, 2)) : 0;
    zend_object *object = object_at(execute_data, 1);
    if (option == SHIM_CURLOPT_URL) {
        shim_curl_handle_forget_url(object);
    }
    if (option != SHIM_CURLOPT_HTTPHEADER) {
        shim_observed_next(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    zval *value = ZEND_CALL_ARG(execute_data, 3);
    shim_curl_handle_prepare(object, array_of(value));
    shim_observed_next(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    shim_curl_handle_settle(object, array_of(value), Z_TYPE_P(return_value) == IS_TRUE);
}

/* Records the options. PHP sets them one by one until one of them fails; whether the header fields are then set is
 * unknown. */
static ZEND_NAMED_FUNCTION(set_options)
{
    HashTable *options = ZEND_CALL_NUM_ARGS(execute_data) == 2 ? array_of(ZEND_CALL_ARG(execute_data, 2)) : NULL;
    zval *value = options != NULL ? zend_hash_index_find(options, SHIM_CURLOPT_HTTPHEADER) : NULL;
    if (options != NULL && zend_hash_index_exists(options, SHIM_CURLOPT_URL)) {
        shim_curl_handle_forget_url(object_at(execute_data, 1));
    }
    if (value == NULL) {
        shim_observed_next(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    zend_object *object = object_at(execute_data, 1);
    shim_curl_handle_prepare(object, array_of(value));
    shim_curl_handle_unsettle(object);
    shim_observed_next(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    shim_curl_handle_settle(object, array_of(value), Z_TYPE_P(return_value) == IS_TRUE);
}

/* Records a reset. PHP refuses it in a callback of the handle, with an exception. */
static ZEND_NAMED_FUNCTION(reset)
{
    const zend_object *before = EG(exception);
    shim_observed_next(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (EG(exception) == before) {
        shim_curl_handle_reset(object_at(execute_data, 1));
        shim_curl_handle_forget_url(object_at(execute_data, 1));
    }
}

static ZEND_NAMED_FUNCTION(copy)
{
    shim_observed_next(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (Z_TYPE_P(return_value) == IS_OBJECT) {
        shim_curl_handle_copied(object_at(execute_data, 1), Z_OBJ_P(return_value));
    }
}

/* ---- a transfer ---- */

static bool is_http(const char *url)
{
    return strstr(url, "://") == NULL || strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0;
}

/* Begins the span of a transfer over HTTP; returns 0 for others. */
static uint64_t begin(shim_curl_handle *handle)
{
    const char *url = shim_curl_handle_url(handle);
    if (shim_request_host() == NULL || !is_http(url)) {
        return 0;
    }
    const uint64_t span = shim_observed_begin();
    if (span != 0) {
        const shim_client_call call = {.kind = SHIM_CLIENT_HTTP, .text = shim_view_of(url, strlen(url))};
        shim_host.client.describe(shim_current->host, span, &call);
    }
    if (passes_on) {
        const shim_trace_fields trace = shim_trace_fields_of(span);
        shim_curl_handle_extend(handle, &trace);
    }
    return span;
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
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
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

/* Ends the span. `code` is the result of the transfer; 0 if it succeeded, -1 if it is unknown. */
static void finish(const shim_curl_handle *handle, uint64_t span, zend_long code, const zend_object *before)
{
    shim_client_end end = {.kind = SHIM_CLIENT_HTTP, .is_cut = shim_observed_is_cut(before)};
    const char *method = NULL;
    long status = 0, version = 0;
    if (span == 0 || shim_request_host() == NULL) {
        return;
    }
    if (shim_libcurl.getinfo(handle->easy, SHIM_CURLINFO_RESPONSE_CODE, &status) == 0 && status > 0 && status < 1000) {
        end.status = (uint16_t)status;
    }
    if (shim_libcurl.getinfo(handle->easy, SHIM_CURLINFO_EFFECTIVE_METHOD, &method) == 0 && method != NULL) {
        end.method = shim_view_of(method, strlen(method));
    }
    if (shim_libcurl.getinfo(handle->easy, SHIM_CURLINFO_HTTP_VERSION, &version) == 0) {
        end.version = version_of(version);
    }
    if (!end.is_cut && EG(exception) != NULL && EG(exception) != before) {
        end.failed = true;
        end.error = shim_observed_view(EG(exception)->ce->name);
    } else if (!end.is_cut && (code > 0 || (code < 0 && status == 0))) {
        const char *name = error_name(code);
        end.failed = true;
        end.error = shim_view_of(name, strlen(name));
    }
    shim_host.client.finish(shim_current->host, span, &end);
}

static zend_long error_number(zend_object *object)
{
    zend_function *function = zend_hash_str_find_ptr(CG(function_table), "curl_errno", sizeof("curl_errno") - 1);
    zval argument, answer;
    ZVAL_UNDEF(&answer);
    if (function != NULL && EG(exception) == NULL) {
        ZVAL_OBJ(&argument, object);
        zend_call_known_function(function, NULL, NULL, &answer, 1, &argument, NULL);
    }
    return Z_TYPE(answer) == IS_LONG ? Z_LVAL(answer) : -1;
}

static void release(shim_curl_handle *handle)
{
    handle->is_busy = false;
    shim_curl_handle_retract(handle);
}

static ZEND_NAMED_FUNCTION(execute)
{
    zend_object *object = object_at(execute_data, 1);
    shim_curl_handle *handle = shim_request_host() != NULL ? shim_curl_handle_of(object, true) : NULL;
    if (handle == NULL || handle->is_busy) {
        shim_observed_next(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    const zend_object *before = EG(exception);
    handle->is_busy = true;
    const uint64_t span = begin(handle);
    shim_observed_next(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    release(handle);
    if (span != 0) {
        finish(handle, span, Z_TYPE_P(return_value) == IS_FALSE ? error_number(object) : 0, before);
    }
}

/* ---- several at once ---- */

/* Ends the span of a transfer that is over; `code` as above. */
static void conclude(shim_curl_handle *handle, zend_long code)
{
    const uint64_t span = handle->span;
    handle->span = 0;
    /* An exception that is already in flight does not belong to the transfer. */
    finish(handle, span, code, shim_observed_is_cut(NULL) ? NULL : EG(exception));
}

static void leave(shim_curl_handle *handle)
{
    conclude(handle, -1);
    handle->multi = NULL;
    release(handle);
}

static bool succeeded(const zval *return_value)
{
    return Z_TYPE_P(return_value) == IS_LONG && Z_LVAL_P(return_value) == 0;
}

static ZEND_NAMED_FUNCTION(add_handle)
{
    zend_object *multi = object_at(execute_data, 1);
    shim_curl_handle *handle = shim_request_host() != NULL ? shim_curl_handle_of(object_at(execute_data, 2), true) : NULL;
    if (handle == NULL || handle->is_busy || multi == NULL) {
        shim_observed_next(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
    handle->is_busy = true;
    handle->multi = multi;
    shim_curl_multi_watch(multi);
    handle->span = begin(handle);
    shim_observed_next(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (!succeeded(return_value)) {
        if (handle->span != 0) {
            shim_host.client.discard(shim_current->host, handle->span);
            handle->span = 0;
        }
        leave(handle);
    }
}

static ZEND_NAMED_FUNCTION(remove_handle)
{
    const zend_object *multi = object_at(execute_data, 1);
    zend_object *object = object_at(execute_data, 2);
    shim_observed_next(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    shim_curl_handle *handle = shim_curl_handle_of(object, false);
    if (handle != NULL && handle->multi == multi && multi != NULL && succeeded(return_value)) {
        leave(handle);
    }
}

/* Ends the span with the result of `curl_multi_info_read()`: `msg`, `result` and `handle`. */
static ZEND_NAMED_FUNCTION(read_info)
{
    shim_observed_next(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (Z_TYPE_P(return_value) != IS_ARRAY) {
        return;
    }
    const zval *result = zend_hash_str_find(Z_ARRVAL_P(return_value), ZEND_STRL("result"));
    const zval *of = zend_hash_str_find(Z_ARRVAL_P(return_value), ZEND_STRL("handle"));
    shim_curl_handle *handle = of != NULL && Z_TYPE_P(of) == IS_OBJECT ? shim_curl_handle_of(Z_OBJ_P(of), false) : NULL;
    if (handle != NULL && result != NULL && Z_TYPE_P(result) == IS_LONG) {
        conclude(handle, Z_LVAL_P(result));
    }
}

static ZEND_NAMED_FUNCTION(close_multi)
{
    const zend_object *multi = object_at(execute_data, 1);
    shim_observed_next(EX(func))(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (multi != NULL && EG(exception) == NULL) {
        shim_curl_multi_leave(multi);
    }
}

bool shim_curl_calls_install(bool propagates)
{
    passes_on = propagates;
    if (!shim_curl_handles_install(leave)) {
        return true;
    }
    return shim_observed_replace("curl_setopt", set_option) && shim_observed_replace("curl_setopt_array", set_options) &&
           shim_observed_replace("curl_reset", reset) && shim_observed_replace("curl_copy_handle", copy) &&
           shim_observed_replace("curl_exec", execute) && shim_observed_replace("curl_multi_add_handle", add_handle) &&
           shim_observed_replace("curl_multi_remove_handle", remove_handle) &&
           shim_observed_replace("curl_multi_info_read", read_info) &&
           shim_observed_replace("curl_multi_close", close_multi);
}
