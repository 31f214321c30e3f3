/* The header fields of curl's handles. */
#ifndef SVC_SHIM_CURL_HEADERS_H
#define SVC_SHIM_CURL_HEADERS_H

#include "compat.h"
#include "shim.h"
#include "trace/apm/trace_fields.h"

#include <stdbool.h>

/* Part of libcurl's ABI: svc is built without curl.h. */
enum {
    SHIM_CURLOPT_URL = 10002,
    SHIM_CURLOPT_HTTPHEADER = 10023,
    SHIM_CURLINFO_EFFECTIVE_URL = 0x100001,
    SHIM_CURLINFO_RESPONSE_CODE = 0x200002,
    SHIM_CURLINFO_HTTP_VERSION = 0x20002e,
    SHIM_CURLINFO_EFFECTIVE_METHOD = 0x10003a,
};

struct curl_slist;

/* Functions of libcurl. */
typedef struct shim_curl {
    int (*setopt)(void *easy, int option, ...);
    int (*getinfo)(void *easy, int info, ...);
    struct curl_slist *(*append)(struct curl_slist *list, const char *line);
    void (*free_all)(struct curl_slist *list);
} shim_curl;
extern shim_curl shim_libcurl;

/* The header fields that a script has set; copies of a handle share them. */
typedef struct shim_curl_fields {
    unsigned references;
    /* Whether libcurl's option is left alone, because it is unknown or the script propagates a trace itself. */
    bool is_fixed;
    /* Whether the script sets `tracestate` itself. */
    bool has_state;
    struct curl_slist *list;
    /* The list that libcurl may still use, because it is unknown whether the script has replaced it; NULL if there is
     * none. */
    struct shim_curl_fields *former;
} shim_curl_fields;

/* The record of a handle. */
typedef struct shim_curl_handle {
    void *easy;
    /* NULL if the script has set none. */
    shim_curl_fields *fields;
    /* The fields that PHP is about to set. */
    shim_curl_fields *prepared;
    /* The additional lines for the current call. */
    struct curl_slist *extended;
    bool is_extended;
    /* Whether a call is in progress; and the multi handle that contains the handle. */
    bool is_busy;
    const zend_object *multi;
    /* The span of the transfer in the multi handle; 0 if there is none. */
    uint64_t span;
    /* The URL of the last transfer, and the one that redirects have led it to; NULL if there is none, or once the
     * script sets a URL. */
    char *url;
    char *redirected;
} shim_curl_handle;

/* Returns the record of `object`; NULL if it is no curl handle, or has no record and `is_made` is false. */
shim_curl_handle *shim_curl_handle_of(zend_object *object, bool is_made);
/* Returns the URL of the transfer that begins. libcurl reports the final URL of the last one. */
const char *shim_curl_handle_url(shim_curl_handle *handle);
/* Call after the script has set a URL, or may have. */
void shim_curl_handle_forget_url(zend_object *object);
/* Call before the script sets the header fields to these lines; NULL if they are unknown. */
void shim_curl_handle_prepare(zend_object *object, HashTable *lines);
/* Call before curl_setopt_array(), which may stop half-way. */
void shim_curl_handle_unsettle(zend_object *object);
/* Call after the script has set these lines, or PHP has refused to (`is_set` is false). */
void shim_curl_handle_settle(zend_object *object, HashTable *lines, bool is_set);
/* Call after the script has reset the handle. */
void shim_curl_handle_reset(zend_object *object);
/* Call after the script has copied the handle. */
void shim_curl_handle_copied(zend_object *object, zend_object *copy);
/* Adds lines for the duration of a call, unless the script propagates a trace itself; shim_curl_handle_retract()
 * removes them. */
void shim_curl_handle_extend(shim_curl_handle *handle, const shim_trace_fields *trace);
void shim_curl_handle_retract(shim_curl_handle *handle);
/* Returns the record of any handle in a multi handle; NULL if there is none left. */
shim_curl_handle *shim_curl_handle_in(const zend_object *multi);
/* Makes the end of this multi handle remove the handles that it still contains. */
void shim_curl_multi_watch(zend_object *multi);
/* Returns false if curl is not loaded. `leave` removes a handle from its multi handle, which may already be freed. */
bool shim_curl_handles_install(void (*leave)(shim_curl_handle *handle));
/* Removes all handles from a multi handle. */
void shim_curl_multi_leave(const zend_object *multi);
/* Frees this thread's records; call after its objects were destroyed. */
void shim_curl_handles_forget(void);

#endif
