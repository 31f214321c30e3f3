/* All differences between PHP versions that the preprocessor decides. Supported: 8.3 to 8.5. */
#ifndef SVC_COMPAT_H
#define SVC_COMPAT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
/* libphp is built with it: php_basic_globals then has one more member. */
#ifndef _REENTRANT
#define _REENTRANT 1
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include <php.h>

#include <SAPI.h>
#include <ext/standard/basic_functions.h>
#include <ext/standard/file.h>
#include <ext/standard/info.h>
#include <main/php_main.h>
#include <main/php_output.h>
#include <main/php_variables.h>
#include <zend_exceptions.h>
#include <zend_extensions.h>
#include <zend_fibers.h>
#include <zend_ini.h>
#include <zend_interfaces.h>
#include <zend_observer.h>
#pragma GCC diagnostic pop

#if PHP_VERSION_ID < 80300 || PHP_VERSION_ID >= 80600
#error "svc embeds PHP 8.3 to 8.5"
#endif
#if !defined(__GLIBC__) || __GLIBC__ == 2 && __GLIBC_MINOR__ < 34
#error "svc requires glibc 2.34 or later"
#endif
#ifndef ZTS
#error "svc embeds thread-safe PHP only (configure with --enable-zts)"
#endif

ZEND_TSRMLS_CACHE_EXTERN()

/* 8.4: http_get_last_response_headers(). */
#if PHP_VERSION_ID >= 80400
#define SHIM_FORGET_LAST_HTTP_HEADERS(basic) ZVAL_UNDEF(&(basic)->last_http_headers)
#define SHIM_FREE_LAST_HTTP_HEADERS() zval_ptr_dtor(&BG(last_http_headers))
#define SHIM_LAST_HTTP_HEADERS() (&BG(last_http_headers))
#else
#define SHIM_FORGET_LAST_HTTP_HEADERS(basic) (void)(basic)
#define SHIM_FREE_LAST_HTTP_HEADERS() (void)0
#define SHIM_LAST_HTTP_HEADERS() NULL
#endif

/* 8.5: the backtrace of the last fatal error, which error_get_last() returns. */
#if PHP_VERSION_ID >= 80500
#define SHIM_READ_BACKTRACE(backtrace) ZVAL_COPY_VALUE(backtrace, &EG(last_fatal_error_backtrace))
#define SHIM_WRITE_BACKTRACE(backtrace) ZVAL_COPY_VALUE(&EG(last_fatal_error_backtrace), backtrace)
#else
#define SHIM_READ_BACKTRACE(backtrace) ZVAL_UNDEF(backtrace)
#define SHIM_WRITE_BACKTRACE(backtrace) (void)(backtrace)
#endif

/* 8.5: the engine's classes are const in more places. */
#if PHP_VERSION_ID >= 80500
typedef const zend_class_entry shim_scope;
#else
typedef zend_class_entry shim_scope;
#endif

/* 8.5: the notifier of a context is a callable in a separate allocation; before, a value. `copy` has none yet. */
#if PHP_VERSION_ID >= 80500
#define SHIM_COPY_NOTIFIED(copy, original) \
    do { \
        if ((original)->ptr != NULL) { \
            (copy)->ptr = emalloc(sizeof(zend_fcall_info_cache)); \
            zend_fcc_dup((copy)->ptr, (original)->ptr); \
        } \
    } while (0)
#else
#define SHIM_COPY_NOTIFIED(copy, original) ZVAL_COPY(&(copy)->ptr, &(original)->ptr)
#endif

/* 8.5: shutdown functions no longer contain what zend_call_function() requires. */
#if PHP_VERSION_ID >= 80500
#define SHIM_CALL_SHUTDOWN_FUNCTION(function, result) \
    zend_call_known_fcc(&(function)->fci_cache, result, (function)->param_count, (function)->params, NULL)
#else
#define SHIM_CALL_SHUTDOWN_FUNCTION(function, result) \
    ((function)->fci.retval = (result), (void)zend_call_function(&(function)->fci, &(function)->fci_cache))
#endif

/* 8.4: objects whose properties are initialized on first use. */
#if PHP_VERSION_ID >= 80400
#include <zend_lazy_objects.h>
#define SHIM_IS_LAZY(object) zend_object_is_lazy(object)
#else
#define SHIM_IS_LAZY(object) ((void)(object), false)
#endif

/* 8.4: the guard of an object also protects from recursion, and serves the hooks of properties. */
#if PHP_VERSION_ID >= 80400
#define SHIM_GUARD(slot) Z_GUARD_P(slot)
#define SHIM_GUARD_MASK ZEND_GUARD_PROPERTY_MASK
#else
#define SHIM_GUARD(slot) Z_PROPERTY_GUARD_P(slot)
#define SHIM_GUARD_MASK 15
#endif

/* 8.4: json_encode() has a guard for its mark on an object that serializes itself. */
#if PHP_VERSION_ID >= 80400
#define SHIM_JSON_BITS(object) zend_get_recursion_guard(object)
#define SHIM_JSON_MASK ((uint32_t)ZEND_GUARD_RECURSION_JSON)
#else
#define SHIM_JSON_BITS(object) (&GC_TYPE_INFO(object))
#define SHIM_JSON_MASK ((uint32_t)GC_PROTECTED << GC_FLAGS_SHIFT)
#endif

/* 8.4: some functions are called without a frame. */
#if PHP_VERSION_ID >= 80400
#include <zend_frameless_function.h>
#define SHIM_FRAMELESS_FUNCTION(opline) \
    ((opline)->opcode >= ZEND_FRAMELESS_ICALL_0 && (opline)->opcode <= ZEND_FRAMELESS_ICALL_3 ? ZEND_FLF_FUNC(opline) : NULL)
#else
#define SHIM_FRAMELESS_FUNCTION(opline) ((void)(opline), NULL)
#endif

/* 8.4: the state of mt_rand() is in the struct of its extension; before, behind a pointer there. */
#if PHP_VERSION_ID < 80400
#define SHIM_RANDOM_IS_BEHIND_POINTER 1
#endif

/* Members of the extensions' structs in worker/state/library_extensions.c that exist in some versions only, or at different
 * places. */
#if PHP_VERSION_ID >= 80500
#define SHIM_GMP_MEMBERS struct { int allocated; int size; void *limbs; } zpp_arg[3];
#define SHIM_OPENSSL_MEMBERS \
    struct { void *libctx; void *default_libctx; void *custom_libctx; char *propq; } ctx;
#define SHIM_PGSQL_MEMBERS \
    zend_long auto_reset_persistent; zend_object *default_link; zend_string *regexes[11]; \
    bool allow_persistent; bool ignore_notices; bool log_notices;
#else
#define SHIM_GMP_MEMBERS
#define SHIM_OPENSSL_MEMBERS
#define SHIM_PGSQL_MEMBERS \
    bool allow_persistent; int ignore_notices; zend_long auto_reset_persistent; int log_notices; \
    zend_object *default_link; SHIM_PGSQL_REGEXES
#endif
#if PHP_VERSION_ID >= 80400
#define SHIM_PGSQL_REGEXES zend_string *regexes[11];
#define SHIM_SOAP_ERROR_MEMBERS char *error_code; zval error_object; bool use_soap_error_handler;
#else
#define SHIM_PGSQL_REGEXES
#define SHIM_SOAP_ERROR_MEMBERS bool use_soap_error_handler; char *error_code; zval error_object; char cache;
#endif
#if PHP_VERSION_ID >= 80500
#define SHIM_SOAP_ENCODINGS
#else
#define SHIM_SOAP_ENCODINGS HashTable defEncNs; HashTable defEnc; HashTable defEncIndex;
#endif

/* 8.4: properties may have functions, and no value. */
#if PHP_VERSION_ID >= 80400
#define SHIM_ACC_VIRTUAL ZEND_ACC_VIRTUAL
#define SHIM_PROPERTY_HOOKS ZEND_PROPERTY_HOOK_COUNT
#define SHIM_HOOKS_OF(property) ((property)->hooks)
#else
#define SHIM_ACC_VIRTUAL 0
#define SHIM_PROPERTY_HOOKS 0
#define SHIM_HOOKS_OF(property) ((void)(property), (zend_function **)NULL)
#endif

/* 8.5: recorded errors and their number are one struct. */
#if PHP_VERSION_ID >= 80500
#define SHIM_RECORDED_ERRORS() 0
#define SHIM_SET_RECORDED_ERRORS(count) (void)(count)
#else
#define SHIM_RECORDED_ERRORS() EG(num_errors)
#define SHIM_SET_RECORDED_ERRORS(count) (EG(num_errors) = (count))
#endif

/* glibc only defines it with a leading underscore. */
#ifndef NL_LOCALE_NAME
#define NL_LOCALE_NAME(category) _NL_LOCALE_NAME(category)
#endif

#endif
