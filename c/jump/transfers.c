/* Transfers by libcurl, which calls scripts in the middle of its own functions.
 *
 * A bailout out of such a callback (memory limit, time limit, fatal error) would leave libcurl in the middle of its
 * function for ever: it refuses to close what is in use, so the sockets and memory of the transfer would be held until
 * the process ends. The bailout therefore stops before it reaches libcurl, which is told to abort, and continues when
 * libcurl has returned.
 *
 * The executable defines libcurl's functions before libcurl does, and wraps PHP's callbacks. libcurl's headers are not
 * needed: the option numbers are part of its ABI.
 *
 * Invariant. `running` is set while libcurl itself runs, and never while a script's code does. A request that waits
 * inside of libcurl (c/hooks) takes it along: other requests run libcurl meanwhile. */
#include "compat.h"
#include "jump/transfers.h"
#include "libc/libc.h"

#include <dlfcn.h>
#include <stdarg.h>

typedef void CURL;
typedef void CURLM;
typedef int64_t curl_off_t;

enum {
    CURLE_FAILED_INIT = 2,
    CURLM_INTERNAL_ERROR = 4,
};

/* A call to libcurl that may call back. */
typedef struct {
    bool was_left;
} transfer;

static __thread transfer *running;

void *shim_transfer_suspend(void)
{
    transfer *const suspended = running;
    running = NULL;
    return suspended;
}

void shim_transfer_resume(void *suspended)
{
    running = suspended;
}

/* ---- PHP's callbacks ---- */

/* The function that PHP passes for this option, the first time. After a bailout, the transfer receives `refusal` without
 * PHP being called. */
#define CALLBACK(name, result, refusal, parameters, arguments)         \
    static result(*php_##name) parameters;                             \
    static result name parameters                                      \
    {                                                                  \
        transfer *const own = running;                                 \
        volatile result value = (refusal);                             \
        if (own == NULL) {                                             \
            return __atomic_load_n(&php_##name, __ATOMIC_RELAXED) arguments; \
        }                                                              \
        if (own->was_left) {                                           \
            return value;                                              \
        }                                                              \
        running = NULL;                                                \
        zend_try {                                                     \
            value = __atomic_load_n(&php_##name, __ATOMIC_RELAXED) arguments; \
        } zend_catch {                                                 \
            own->was_left = true;                                      \
        } zend_end_try();                                              \
        running = own;                                                 \
        return value;                                                  \
    }

CALLBACK(write_body, size_t, 0, (char *data, size_t size, size_t count, void *place), (data, size, count, place))
CALLBACK(write_head, size_t, 0, (char *data, size_t size, size_t count, void *place), (data, size, count, place))
/* CURL_READFUNC_ABORT */
CALLBACK(read_body, size_t, 0x10000000, (char *data, size_t size, size_t count, void *place), (data, size, count, place))
CALLBACK(progress, int, 1, (void *place, double all_down, double down, double all_up, double up),
         (place, all_down, down, all_up, up))
CALLBACK(transfer_facts, int, 1, (void *place, curl_off_t all_down, curl_off_t down, curl_off_t all_up, curl_off_t up),
         (place, all_down, down, all_up, up))
/* CURL_FNMATCHFUNC_FAIL */
CALLBACK(match, int, 2, (void *place, const char *pattern, const char *text), (place, pattern, text))
CALLBACK(debug, int, 0, (CURL *handle, int type, char *data, size_t size, void *place), (handle, type, data, size, place))
/* CURL_PREREQFUNC_ABORT */
CALLBACK(before_request, int, 1, (void *place, char *far, char *near, int far_port, int near_port),
         (place, far, near, far_port, near_port))
CALLBACK(host_key, int, 1, (void *place, int type, const char *key, size_t length), (place, type, key, length))
/* CURL_PUSH_DENY */
CALLBACK(push, int, 1, (CURL *parent, CURL *handle, size_t count, void *fields, void *place),
         (parent, handle, count, fields, place))

typedef struct {
    int option;
    void **php;
    void *ours;
} callback;

/* Options, by their numbers in libcurl's ABI. */
static const callback callbacks[] = {
    {20011, (void **)&php_write_body, (void *)write_body},
    {20012, (void **)&php_read_body, (void *)read_body},
    {20056, (void **)&php_progress, (void *)progress},
    {20079, (void **)&php_write_head, (void *)write_head},
    {20094, (void **)&php_debug, (void *)debug},
    {20200, (void **)&php_match, (void *)match},
    {20219, (void **)&php_transfer_facts, (void *)transfer_facts},
    {20312, (void **)&php_before_request, (void *)before_request},
    {20316, (void **)&php_host_key, (void *)host_key},
};
static const callback callbacks_of_many[] = {
    {20014, (void **)&php_push, (void *)push},
};

/* Whether the function belongs to ext/curl: other libraries may use libcurl as well. */
static bool is_php_s(void *function)
{
    const zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("curl"));
    Dl_info one, other;
    return module != NULL && dladdr((void *)module->functions, &one) != 0 && dladdr(function, &other) != 0 &&
           one.dli_fbase == other.dli_fbase;
}

/* What libcurl receives instead of `value`. Ours call the function that PHP has passed first, for all handles. PHP 8.3 passes
 * another one to handles that it frees, which does nothing: it stays as it is, and leaves transfers of others alone. */
static void *in_place_of(void *value, int option, const callback *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].option != option || value == NULL) {
            continue;
        }
        void *first = __atomic_load_n(list[i].php, __ATOMIC_RELAXED);
        if (first == NULL && is_php_s(value) &&
            __atomic_compare_exchange_n(list[i].php, &first, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            first = value;
        }
        return first == value ? list[i].ours : value;
    }
    return value;
}

/* ---- libcurl's functions ---- */

/* libcurl is loaded with libphp, or later with an extension. NULL means that it is not loaded, so nobody calls this. */
static void *libcurl_s(void **slot, const char *name)
{
    static const char *const libraries[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *function = shim_libc(slot, name);
    for (size_t i = 0; function == NULL && i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library != NULL) {
            function = dlsym(library, name);
            dlclose(library);
            __atomic_store_n(slot, function, __ATOMIC_RELAXED);
        }
    }
    return function;
}

#define LIBCURL(name) ((__typeof__(&name))libcurl_s(&libc_##name, #name))

int curl_easy_setopt(CURL *handle, int option, ...);
int curl_multi_setopt(CURLM *many, int option, ...);
int curl_easy_perform(CURL *handle);
int curl_multi_perform(CURLM *many, int *count);

DECLARE_LIBC(curl_easy_setopt);
DECLARE_LIBC(curl_multi_setopt);
DECLARE_LIBC(curl_easy_perform);
DECLARE_LIBC(curl_multi_perform);

/* Every type that an option accepts (long, pointer, offset) has the size of a pointer here. */
_Static_assert(sizeof(long) == sizeof(void *) && sizeof(curl_off_t) == sizeof(void *), "the value of an option must fit in a long");

/* libcurl's function that sets an option, with our wrappers in place of PHP's callbacks. */
#define SET_OPTION(name, handle_type, list, refusal)                                        \
    int name(handle_type *handle, int option, ...)                                          \
    {                                                                                       \
        va_list rest;                                                                       \
        va_start(rest, option);                                                             \
        void *value = va_arg(rest, void *);                                                 \
        va_end(rest);                                                                       \
        value = in_place_of(value, option, list, sizeof(list) / sizeof((list)[0]));         \
        __typeof__(&name) set = LIBCURL(name);                                              \
        return set != NULL ? set(handle, option, value) : (refusal);                        \
    }

SET_OPTION(curl_easy_setopt, CURL, callbacks, CURLE_FAILED_INIT)
SET_OPTION(curl_multi_setopt, CURLM, callbacks_of_many, CURLM_INTERNAL_ERROR)

/* libcurl's function that transfers. A bailout that stopped before libcurl continues from here. */
#define PERFORM(name, refusal, parameters, arguments) \
    int name parameters                               \
    {                                                 \
        __typeof__(&name) perform = LIBCURL(name);    \
        if (perform == NULL) {                        \
            return (refusal);                         \
        }                                             \
        transfer own = {0};                           \
        running = &own;                               \
        const int code = perform arguments;           \
        running = NULL;                               \
        if (own.was_left) {                           \
            zend_bailout();                           \
        }                                             \
        return code;                                  \
    }

PERFORM(curl_easy_perform, CURLE_FAILED_INIT, (CURL *handle), (handle))
PERFORM(curl_multi_perform, CURLM_INTERNAL_ERROR, (CURLM *many, int *count), (many, count))
