/* The functions that svc provides to scripts. */
#include "compat.h"
#include "php/context/context.h"
#include "php/sapi/sapi.h"
#include "shim.h"

PHP_FUNCTION(frankenphp_log);

/* {{{ svc_finish_request(): bool; alias fastcgi_finish_request() */
PHP_FUNCTION(svc_finish_request)
{
    ZEND_PARSE_PARAMETERS_NONE();
    if (shim_request_host() == NULL || shim_current->finished || shim_current->is_task) {
        RETURN_FALSE;
    }
    php_output_end_all();
    sapi_send_headers();
    shim_host.io.finish(shim_current->host);
    shim_current->finished = true;
    RETURN_TRUE;
}

PHP_FUNCTION(svc_request_id)
{
    ZEND_PARSE_PARAMETERS_NONE();
    shim_view id = {0};
    if (shim_request_host() != NULL) {
        shim_host.io.request_id(shim_current->host, &id);
    }
    RETURN_STRINGL(id.bytes != NULL ? id.bytes : "", id.length);
}

/* Capitalizes a field name as php-fpm does (sapi_add_request_header() in main/SAPI.c). Scripts look up `Authorization`;
 * HTTP/2, and some clients of HTTP/1, send `authorization`. */
static zend_string *canonical_name(const shim_view *name)
{
    zend_string *canonical = zend_string_alloc(name->length, false);
    bool is_first = true;
    for (size_t i = 0; i < name->length; i++) {
        const char byte = name->bytes[i];
        ZSTR_VAL(canonical)[i] = is_first ? zend_toupper_ascii(byte) : zend_tolower_ascii(byte);
        is_first = byte == '-';
    }
    ZSTR_VAL(canonical)[name->length] = '\0';
    return canonical;
}

PHP_FUNCTION(getallheaders)
{
    ZEND_PARSE_PARAMETERS_NONE();
    array_init(return_value);
    if (shim_request_host() == NULL) {
        return;
    }
    shim_pairs fields = {0};
    shim_host.io.fields(shim_current->host, &fields);
    for (size_t i = 0; i < fields.count; i++) {
        const shim_pair *field = &fields.pairs[i];
        zend_string *name = canonical_name(&field->name);
        zval value;
        ZVAL_STRINGL(&value, field->value.bytes, field->value.length);
        zend_symtable_update(Z_ARRVAL_P(return_value), name, &value);
        zend_string_release(name);
    }
}

PHP_FUNCTION(apache_response_headers)
{
    ZEND_PARSE_PARAMETERS_NONE();
    array_init(return_value);
    zend_llist_position position;
    for (sapi_header_struct *header = zend_llist_get_first_ex(&SG(sapi_headers).headers, &position); header != NULL;
         header = zend_llist_get_next_ex(&SG(sapi_headers).headers, &position)) {
        const char *colon = memchr(header->header, ':', header->header_len);
        if (colon == NULL) {
            continue;
        }
        const char *end = header->header + header->header_len;
        const char *start = colon + 1;
        while (start < end && (*start == ' ' || *start == '\t')) {
            start++;
        }
        add_assoc_stringl_ex(return_value, header->header, (size_t)(colon - header->header), start, (size_t)(end - start));
    }
}

/* headers_send(int $status = 200): bool. An informational status sends the fields set so far ahead of the response; any
 * other status sends the header of the response now. */
PHP_FUNCTION(headers_send)
{
    zend_long status = 200;
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(status)
    ZEND_PARSE_PARAMETERS_END();
    if (status < 100 || status > 599 || status == 101) {
        zend_argument_value_error(1, "must be a status code between 100 and 599, except 101");
        RETURN_THROWS();
    }
    if (shim_request_host() == NULL || SG(headers_sent) || shim_current->finished || shim_current->is_task) {
        RETURN_FALSE;
    }
    if (status < 200) {
        shim_send_interim((int)status);
        RETURN_TRUE;
    }
    SG(sapi_headers).http_response_code = (int)status;
    bool sent = sapi_send_headers() == SUCCESS;
    sapi_flush();
    RETURN_BOOL(sent);
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_bool, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_string, 0, 0, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_array, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_headers_send, 0, 0, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "200")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_log, 0, 1, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO(0, message, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, level, IS_LONG, 0, "FRANKENPHP_LOG_LEVEL_INFO")
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, context, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

const zend_function_entry shim_functions[] = {
    PHP_FE(svc_finish_request, arginfo_bool)
    PHP_FALIAS(fastcgi_finish_request, svc_finish_request, arginfo_bool)
    PHP_FE(svc_request_id, arginfo_string)
    PHP_FE(getallheaders, arginfo_array)
    PHP_FALIAS(apache_request_headers, getallheaders, arginfo_array)
    PHP_FE(apache_response_headers, arginfo_array)
    PHP_FE(headers_send, arginfo_headers_send)
    /* FrankenPHP's aliases, and its own functions. */
    PHP_FALIAS(frankenphp_finish_request, svc_finish_request, arginfo_bool)
    PHP_FALIAS(frankenphp_request_headers, getallheaders, arginfo_array)
    PHP_FALIAS(frankenphp_response_headers, apache_response_headers, arginfo_array)
    PHP_FE(frankenphp_log, arginfo_log)
    PHP_FE_END
};
