/* The only place that knows differences between PHP versions. Supported: 8.3 to 8.5. */
#ifndef SVC_SHIM_COMPAT_H
#define SVC_SHIM_COMPAT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include <php.h>

#include <SAPI.h>
#include <ext/standard/basic_functions.h>
#include <ext/standard/info.h>
#include <main/php_main.h>
#include <main/php_output.h>
#include <main/php_variables.h>
#include <zend_exceptions.h>
#include <zend_extensions.h>
#include <zend_ini.h>
#pragma GCC diagnostic pop

#if PHP_VERSION_ID < 80300 || PHP_VERSION_ID >= 80600
#error "svc embeds PHP 8.3 to 8.5"
#endif
#ifndef ZTS
#error "svc embeds thread-safe PHP only (configure with --enable-zts)"
#endif

ZEND_TSRMLS_CACHE_EXTERN()

/* glibc names it only with an underscore. */
#ifndef NL_LOCALE_NAME
#define NL_LOCALE_NAME(category) _NL_LOCALE_NAME(category)
#endif

#endif
