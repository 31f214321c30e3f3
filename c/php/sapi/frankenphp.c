/* Compatibility with FrankenPHP, beyond aliases of svc's functions: log records with their own level and data.
 * frankenphp_handle_request() is in worker/request/worker.c. */
#include "compat.h"
#include "php/context/context.h"
#include "php/sapi/sapi.h"
#include "shim.h"

#include <ext/json/php_json.h>
#include <zend_smart_str.h>

/* The levels of Go's log/slog; a value in between counts as the lower one. */
enum { LEVEL_DEBUG = -4, LEVEL_INFO = 0, LEVEL_WARN = 4, LEVEL_ERROR = 8 };

/* Encodes a value; parts that JSON cannot express become null. json_last_error() keeps the script's own error. */
static void put_json(smart_str *json, zval *value)
{
    const int options = PHP_JSON_PARTIAL_OUTPUT_ON_ERROR | PHP_JSON_INVALID_UTF8_SUBSTITUTE | PHP_JSON_PRESERVE_ZERO_FRACTION;
    const php_json_error_code before = JSON_G(error_code);
    (void)php_json_encode_ex(json, value, options, PHP_JSON_PARSER_DEFAULT_DEPTH);
    JSON_G(error_code) = before;
    smart_str_0(json);
}

/* frankenphp_log(string $message, int $level = FRANKENPHP_LOG_LEVEL_INFO, array $context = []): void */
PHP_FUNCTION(frankenphp_log)
{
    zend_string *message;
    zend_long level = LEVEL_INFO;
    zval *context = NULL;
    ZEND_PARSE_PARAMETERS_START(1, 3)
        Z_PARAM_STR(message)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(level)
        Z_PARAM_ARRAY(context)
    ZEND_PARSE_PARAMETERS_END();
    smart_str json = {0};
    if (context != NULL && zend_hash_num_elements(Z_ARRVAL_P(context)) > 0) {
        put_json(&json, context);
        if (EG(exception) != NULL) {
            smart_str_free(&json);
            RETURN_THROWS();
        }
    }
    shim_log record = {
        .source = SHIM_LOG_SCRIPT,
        .script_level = level < LEVEL_INFO    ? SHIM_SCRIPT_DEBUG
                        : level < LEVEL_WARN  ? SHIM_SCRIPT_INFO
                        : level < LEVEL_ERROR ? SHIM_SCRIPT_WARNING
                                              : SHIM_SCRIPT_ERROR,
        .message = shim_view_of_string(message),
        .line = zend_get_executed_lineno(),
        .span = shim_current_span,
    };
    if (json.s != NULL) {
        record.context = shim_view_of_string(json.s);
    }
    zend_string *file = zend_get_executed_filename_ex();
    if (file != NULL) {
        record.file = shim_view_of_string(file);
    }
    shim_host.io.log(shim_current != NULL ? shim_current->host : NULL, &record);
    smart_str_free(&json);
}

void shim_frankenphp_register(int module_number)
{
    REGISTER_LONG_CONSTANT("FRANKENPHP_LOG_LEVEL_DEBUG", LEVEL_DEBUG, CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("FRANKENPHP_LOG_LEVEL_INFO", LEVEL_INFO, CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("FRANKENPHP_LOG_LEVEL_WARN", LEVEL_WARN, CONST_PERSISTENT);
    REGISTER_LONG_CONSTANT("FRANKENPHP_LOG_LEVEL_ERROR", LEVEL_ERROR, CONST_PERSISTENT);
}
