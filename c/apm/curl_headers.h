/* The header fields of curl's handles. */
#ifndef SVC_SHIM_CURL_HEADERS_H
#define SVC_SHIM_CURL_HEADERS_H

#include "apm/trace_fields.h"
#include "compat.h"
#include "shim.h"

#include <stdbool.h>

/* curl.h is not needed to build svc: these are part of libcurl's ABI. */
enum {
    SHIM_CURLOPT_URL = 10002,
    SHIM_CURLOPT_HTTPHEADER = 10023,
    SHIM_CURLINFO_EFFECTIVE_URL = 0x100001,
    SHIM_CURLINFO_RESPONSE_CODE = 0x200002,
    SHIM_CURLINFO_HTTP_VERSION = 0x20002e,
    SHIM_CURLINFO_EFFECTIVE_METHOD = 0x10003a,
};

struct curl_slist;

/* What libcurl exports. */
typedef struct shim_curl {
    int (*setopt)(void *easy, int option, ...);
    int (*getinfo)(void *easy, int info, ...);
    struct curl_slist *(*append)(struct curl_slist *list, const char *line);
    void (*free_all)(struct curl_slist *list);
} shim_curl;
extern shim_curl shim_libcurl;

/* What a script has set, as a list of our own; copies of a handle share it. */
typedef struct shim_curl_fields {
    unsigned references;
    /* It cannot be known, or the script passes a trace on itself: libcurl's option is left alone. */
    bool is_fixed;
    /* The script sets `tracestate` itself. */
    bool has_state;
    struct curl_slist *list;
    /* NULL, or what libcurl may still have, because nobody knows whether the script has set something else. */
    struct shim_curl_fields *former;
} shim_curl_fields;

/* What is known of a handle, beside its object. */
typedef struct shim_curl_handle {
    void *easy;
    /* NULL without. */
    shim_curl_fields *fields;
    /* What PHP is just setting. */
    shim_curl_fields *prepared;
    /* What libcurl has in addition, until the call is over. */
    struct curl_slist *extended;
    bool is_extended;
    /* A call is in progress, or the handle is in this multi handle. */
    bool is_busy;
    const zend_object *multi;
    /* The span of the transfer in the multi handle; 0 if there is none. */
    uint64_t span;
    /* Where the last transfer began, and where redirects have led it; NULL without, and once the script sets an URL. */
    char *url;
    char *redirected;
} shim_curl_handle;

/* The record of a handle; NULL if it is none, or has none and none is to be made. */
shim_curl_handle *shim_curl_handle_of(zend_object *object, bool is_made);
/* The URL of the transfer that begins. libcurl says where the last one has ended. */
const char *shim_curl_handle_url(shim_curl_handle *handle);
/* The script has set one, or may have. */
void shim_curl_handle_forget_url(zend_object *object);
/* The script is about to set the header fields to these lines; NULL if nobody knows to what. */
void shim_curl_handle_prepare(zend_object *object, HashTable *lines);
/* Whether it will have set them may remain unknown. */
void shim_curl_handle_unsettle(zend_object *object);
/* It has set them to these lines, or PHP has refused to. */
void shim_curl_handle_settle(zend_object *object, HashTable *lines, bool is_set);
/* It has reset the handle. */
void shim_curl_handle_reset(zend_object *object);
/* It has made a copy. */
void shim_curl_handle_copied(zend_object *object, zend_object *copy);
/* Adds lines for the time of a call, unless the script passes a trace on itself; and takes them away again. */
void shim_curl_handle_extend(shim_curl_handle *handle, const shim_trace_fields *trace);
void shim_curl_handle_retract(shim_curl_handle *handle);
/* The records of handles in a multi handle, one after the other; NULL at the end. */
shim_curl_handle *shim_curl_handle_in(const zend_object *multi);
/* From now on, the end of this multi handle takes the handles out that are still in it. */
void shim_curl_multi_watch(zend_object *multi);
/* Returns false if there is no curl. `leave` takes a handle out of its multi handle, which may be no more. */
bool shim_curl_handles_install(void (*leave)(shim_curl_handle *handle));
/* Takes all handles out of a multi handle. */
void shim_curl_multi_leave(const zend_object *multi);
/* The thread's objects are no more. */
void shim_curl_handles_forget(void);

#endif
