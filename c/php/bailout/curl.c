/* Transfers by libcurl, whose callbacks run script code, and the observer of its handles.
 *
 * A bailout out of such a callback (memory limit, time limit, fatal error) would leave libcurl in the middle of its
 * function for good: it refuses to close handles in use, so the transfer's sockets and memory would be held until the
 * process ends. The bailout therefore stops before it reaches libcurl, makes libcurl abort the transfer, and continues
 * when libcurl has returned.
 *
 * The executable's definitions precede those of libcurl, and wrap PHP's callbacks. libcurl's headers are not needed:
 * the option numbers are part of its ABI.
 *
 * A transfer is aborted when its request has ended; the loop that waits for it receives a message of its multi handle.
 * libcurl creates such messages only for transfers that end by themselves, so this one is added to the results of
 * curl_multi_info_read().
 *
 * Invariant. `running` is set while libcurl itself runs, and never while script code runs. A request that waits inside
 * libcurl (c/worker/hooks) keeps its own value: other requests run libcurl meanwhile. */
#include "compat.h"
#include "php/bailout/bailout.h"
#include "php/context/context.h"
#include "php/libc/libc.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>

typedef void CURL;
typedef void CURLM;
typedef int64_t curl_off_t;

enum {
    CURLE_FAILED_INIT = 2,
    CURLE_ABORTED_BY_CALLBACK = 42,
    CURLM_INTERNAL_ERROR = 4,
    CURLMSG_DONE = 1,
};

/* A message, as libcurl declares it. */
typedef struct CURLMsg {
    int kind;
    CURL *handle;
    union {
        void *any;
        int result;
    } data;
} CURLMsg;

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

/* Defines the wrapper of one callback, and the variable for the function that PHP passed first for this option. After a
 * bailout, the transfer receives `refusal`, and PHP is not called. */
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

/* The contents of a part of a form, from a stream wrapper of the script (CURLFile). */
CALLBACK(read_part, size_t, 0x10000000, (char *data, size_t size, size_t count, void *place), (data, size, count, place))
/* CURL_SEEKFUNC_FAIL */
CALLBACK(seek_part, int, 1, (void *place, curl_off_t offset, int origin), (place, offset, origin))

static void (*php_free_part)(void *place);

/* Frees the part after a bailout, too. */
static void free_part(void *place)
{
    transfer *const own = running;
    running = NULL;
    if (own == NULL) {
        __atomic_load_n(&php_free_part, __ATOMIC_RELAXED)(place);
        return;
    }
    zend_try {
        __atomic_load_n(&php_free_part, __ATOMIC_RELAXED)(place);
    } zend_catch {
        own->was_left = true;
    } zend_end_try();
    running = own;
}

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

/* Whether the function belongs to ext/curl: other libraries may use libcurl too. */
static bool is_php_s(void *function)
{
    const zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("curl"));
    Dl_info one, other;
    return module != NULL && dladdr((void *)module->functions, &one) != 0 && dladdr(function, &other) != 0 &&
           one.dli_fbase == other.dli_fbase;
}

static void *wrapped(void *value, void **php, void *ours)
{
    if (value == NULL) {
        return NULL;
    }
    void *first = __atomic_load_n(php, __ATOMIC_RELAXED);
    if (first == NULL && is_php_s(value) &&
        __atomic_compare_exchange_n(php, &first, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        first = value;
    }
    return first == value ? ours : value;
}

/* Returns the function that libcurl receives instead of `value`. For all handles, the wrapper calls the function that
 * PHP passed first. For handles that it frees, PHP 8.3 passes another function, which does nothing; it is passed on as
 * it is, and does not affect other transfers. */
static void *in_place_of(void *value, int option, const callback *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].option == option) {
            return wrapped(value, list[i].php, list[i].ours);
        }
    }
    return value;
}

/* ---- libcurl's functions ---- */

void *shim_libcurl(void **slot, const char *name)
{
    static const char *const files[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    return shim_library(slot, name, files, SHIM_COUNT(files));
}

#define LIBCURL(name) ((__typeof__(&name))shim_libcurl(SHIM_SLOT, #name))
/* Calls libcurl's function; `refusal` is the result if libcurl has an unknown name. */
#define CALL(name, refusal, ...) \
    __extension__({ \
        const __typeof__(&name) function = LIBCURL(name); \
        function != NULL ? function(__VA_ARGS__) : (refusal); \
    })

int curl_easy_setopt(CURL *handle, int option, ...);
int curl_multi_setopt(CURLM *many, int option, ...);
int curl_easy_perform(CURL *handle);
int curl_multi_perform(CURLM *many, int *count);
int curl_multi_add_handle(CURLM *many, CURL *handle);
int curl_multi_remove_handle(CURLM *many, CURL *handle);
CURLMsg *curl_multi_info_read(CURLM *many, int *left);
int curl_multi_cleanup(CURLM *many);
void curl_easy_cleanup(CURL *handle);
void curl_easy_reset(CURL *handle);
CURL *curl_easy_duphandle(CURL *handle);
int curl_mime_data_cb(void *part, curl_off_t size, void *read, void *seek, void *release, void *place);

const shim_transfer_watch *shim_transfer_watched;

#define NOTIFY(event, ...) \
    do { \
        if (shim_transfer_watched != NULL) { \
            shim_transfer_watched->event(__VA_ARGS__); \
        } \
    } while (0)

static bool begins(CURL *handle, CURLM *many)
{
    return shim_transfer_watched != NULL && shim_transfer_watched->begin(handle, many);
}

/* Every type that an option accepts (long, pointer, offset) has the size of a pointer here. */
_Static_assert(sizeof(long) == sizeof(void *) && sizeof(curl_off_t) == sizeof(void *),
               "the value of an option must fit in a long");

/* Sets an option of libcurl, with our wrappers in place of PHP's callbacks. */
int curl_easy_setopt(CURL *handle, int option, ...)
{
    va_list rest;
    va_start(rest, option);
    void *const value = va_arg(rest, void *);
    va_end(rest);
    void *const ours = in_place_of(value, option, callbacks, SHIM_COUNT(callbacks));
    const int code = CALL(curl_easy_setopt, CURLE_FAILED_INIT, handle, option, ours);
    if (code == 0) {
        NOTIFY(set, handle, option, value, ours != value);
    }
    return code;
}

int curl_multi_setopt(CURLM *many, int option, ...)
{
    va_list rest;
    va_start(rest, option);
    void *const value = va_arg(rest, void *);
    va_end(rest);
    return CALL(curl_multi_setopt, CURLM_INTERNAL_ERROR, many, option,
                in_place_of(value, option, callbacks_of_many, SHIM_COUNT(callbacks_of_many)));
}

int curl_mime_data_cb(void *part, curl_off_t size, void *read, void *seek, void *release, void *place)
{
    return CALL(curl_mime_data_cb, CURLE_FAILED_INIT, part, size,
                wrapped(read, (void **)&php_read_part, (void *)read_part),
                wrapped(seek, (void **)&php_seek_part, (void *)seek_part),
                wrapped(release, (void **)&php_free_part, (void *)free_part), place);
}

void curl_easy_reset(CURL *handle)
{
    CALL(curl_easy_reset, (void)0, handle);
    NOTIFY(set, handle, 0, NULL, false);
}

CURL *curl_easy_duphandle(CURL *handle)
{
    CURL *const copy = CALL(curl_easy_duphandle, NULL, handle);
    if (copy != NULL) {
        NOTIFY(copied, handle, copy);
    }
    return copy;
}

/* A bailout that was stopped in front of libcurl continues from here. */
static void resume_bailout(const transfer *own)
{
    if (own->was_left) {
        zend_bailout();
    }
}

int curl_easy_perform(CURL *handle)
{
    const bool is_watched = begins(handle, NULL);
    transfer own = {0};
    running = &own;
    const int code = CALL(curl_easy_perform, CURLE_FAILED_INIT, handle);
    running = NULL;
    if (is_watched) {
        shim_transfer_watched->left(handle, NULL, own.was_left ? SHIM_TRANSFER_CUT : code);
    }
    resume_bailout(&own);
    return code;
}

int curl_multi_perform(CURLM *many, int *count)
{
    transfer own = {0};
    running = &own;
    const int code = CALL(curl_multi_perform, CURLM_INTERNAL_ERROR, many, count);
    running = NULL;
    resume_bailout(&own);
    return code;
}

/* ---- transfers without a request ---- */

/* A message that has not been read yet. */
typedef struct message {
    CURLM *many;
    CURLMsg text;
    struct message *next;
} message;

static __thread message *messages;
/* The last message that was read. It is valid until the next call, like libcurl's own. */
static __thread CURLMsg last_read;
static __thread shim_transfer_pair last_added;

static message **find(const CURLM *many, const CURL *handle)
{
    message **link = &messages;
    while (*link != NULL && ((many != NULL && (*link)->many != many) || (handle != NULL && (*link)->text.handle != handle))) {
        link = &(*link)->next;
    }
    return link;
}

/* Removes the messages of a multi handle, or of an easy handle; NULL stands for any. */
static void strike(const CURLM *many, const CURL *handle)
{
    for (message **link; *(link = find(many, handle)) != NULL;) {
        message *one = *link;
        *link = one->next;
        free(one);
    }
}

/* Appends a message to the list. If memory is short, there is no message, and the waiting loop does not learn of the end. */
static void append_message(CURLM *many, CURL *handle, int result)
{
    message *one = malloc(sizeof(*one));
    if (one != NULL) {
        *one = (message){.many = many, .text = {.kind = CURLMSG_DONE, .handle = handle, .data = {.result = result}}};
        message **link = &messages;
        while (*link != NULL) {
            link = &(*link)->next;
        }
        *link = one;
    }
}

static int count_messages(const CURLM *many)
{
    int count = 0;
    for (const message *one = messages; one != NULL; one = one->next) {
        count += one->many == many;
    }
    return count;
}

int curl_multi_add_handle(CURLM *many, CURL *handle)
{
    const bool is_watched = begins(handle, many);
    strike(NULL, handle);
    last_added = (shim_transfer_pair){many, handle};
    const int code = CALL(curl_multi_add_handle, CURLM_INTERNAL_ERROR, many, handle);
    if (is_watched && code != 0) {
        shim_transfer_watched->left(handle, many, SHIM_TRANSFER_REFUSED);
    }
    return code;
}

int curl_multi_remove_handle(CURLM *many, CURL *handle)
{
    strike(many, handle);
    const int code = CALL(curl_multi_remove_handle, CURLM_INTERNAL_ERROR, many, handle);
    if (code == 0) {
        NOTIFY(left, handle, many, SHIM_TRANSFER_UNKNOWN);
    }
    return code;
}

CURLMsg *curl_multi_info_read(CURLM *many, int *left)
{
    CURLMsg *text = CALL(curl_multi_info_read, NULL, many, left);
    message **first = find(many, NULL);
    if (text == NULL && *first != NULL) {
        message *one = *first;
        *first = one->next;
        last_read = one->text;
        free(one);
        text = &last_read;
        *left = 0;
    }
    *left += count_messages(many);
    if (text != NULL && text->kind == CURLMSG_DONE) {
        NOTIFY(ended, text->handle, text->data.result);
    }
    return text;
}

int curl_multi_cleanup(CURLM *many)
{
    NOTIFY(freed, NULL, many);
    strike(many, NULL);
    return CALL(curl_multi_cleanup, CURLM_INTERNAL_ERROR, many);
}

void curl_easy_cleanup(CURL *handle)
{
    NOTIFY(freed, handle, NULL);
    strike(NULL, handle);
    CALL(curl_easy_cleanup, (void)0, handle);
}

shim_transfer_pair shim_transfer_last_added(void)
{
    return last_added;
}

/* Reads and keeps libcurl's messages: a transfer that has ended by itself keeps its own result. */
static void keep_messages(CURLM *many)
{
    int left = 0;
    const CURLMsg *text;
    while ((text = LIBCURL(curl_multi_info_read)(many, &left)) != NULL) {
        if (text->kind == CURLMSG_DONE) {
            append_message(many, text->handle, text->data.result);
        }
    }
}

void shim_transfer_abandon(shim_transfer_pair pair)
{
    if (LIBCURL(curl_multi_info_read) == NULL || LIBCURL(curl_multi_remove_handle) == NULL) {
        return;
    }
    keep_messages(pair.many);
    if (*find(pair.many, pair.handle) != NULL) {
        return;
    }
    /* libcurl calls back while it removes the transfer. No script code runs. */
    transfer own = {.was_left = true};
    running = &own;
    (void)LIBCURL(curl_multi_remove_handle)(pair.many, pair.handle);
    running = NULL;
    append_message(pair.many, pair.handle, CURLE_ABORTED_BY_CALLBACK);
}
