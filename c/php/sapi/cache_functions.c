/* The functions of the namespace Svc\Cache: they remove responses from the response cache. Without a cache, and outside of
 * requests, they remove nothing. */
#include "compat.h"
#include "php/context/context.h"
#include "php/sapi/sapi.h"
#include "shim.h"

static int64_t purge(shim_purge what, const shim_view *names, size_t count)
{
    void *request = shim_request_host();
    return request != NULL ? shim_host.io.purge(request, what, names, count) : 0;
}

/* Svc\Cache\purge_tags(string ...$tags): int */
ZEND_NAMED_FUNCTION(shim_cache_purge_tags)
{
    zval *tags = NULL;
    uint32_t count = 0;
    ZEND_PARSE_PARAMETERS_START(0, -1)
        Z_PARAM_VARIADIC('*', tags, count)
    ZEND_PARSE_PARAMETERS_END();
    for (uint32_t i = 0; i < count; i++) {
        zend_string *text = NULL;
        if (!zend_parse_arg_str(&tags[i], &text, false, i + 1)) {
            zend_wrong_parameter_type_error(i + 1, Z_EXPECTED_STRING, &tags[i]);
            RETURN_THROWS();
        }
    }
    if (count == 0) {
        RETURN_LONG(0);
    }
    shim_view *names = safe_emalloc(count, sizeof *names, 0);
    for (uint32_t i = 0; i < count; i++) {
        names[i] = shim_view_of_string(Z_STR(tags[i]));
    }
    int64_t removed = purge(SHIM_PURGE_TAGS, names, count);
    efree(names);
    RETURN_LONG((zend_long)removed);
}

/* Svc\Cache\purge_url(string $url): int */
ZEND_NAMED_FUNCTION(shim_cache_purge_url)
{
    zend_string *url = NULL;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(url)
    ZEND_PARSE_PARAMETERS_END();
    const shim_view name = shim_view_of_string(url);
    int64_t removed = purge(SHIM_PURGE_URL, &name, 1);
    if (removed < 0) {
        zend_argument_value_error(1, "must be a URL of http or https, or, in a request, a path that begins with a slash");
        RETURN_THROWS();
    }
    RETURN_LONG((zend_long)removed);
}

/* Svc\Cache\clear(): int */
ZEND_NAMED_FUNCTION(shim_cache_clear)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_LONG((zend_long)purge(SHIM_PURGE_ALL, NULL, 0));
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_purge_tags, 0, 0, IS_LONG, 0)
    ZEND_ARG_VARIADIC_TYPE_INFO(0, tags, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_purge_url, 0, 1, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO(0, url, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_clear, 0, 0, IS_LONG, 0)
ZEND_END_ARG_INFO()

const zend_function_entry shim_cache_functions[] = {
    ZEND_NS_NAMED_FE("Svc\\Cache", clear, shim_cache_clear, arginfo_clear)
    ZEND_NS_NAMED_FE("Svc\\Cache", purge_tags, shim_cache_purge_tags, arginfo_purge_tags)
    ZEND_NS_NAMED_FE("Svc\\Cache", purge_url, shim_cache_purge_url, arginfo_purge_url)
    PHP_FE_END
};
