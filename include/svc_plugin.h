/*
 * svc_plugin.h: the interface between svc and its plugins.
 *
 * A plugin is a shared library that svc loads when it starts. The library exports one C function, svc_plugin_entry(),
 * which receives a struct of functions and fills in a struct of callbacks. A plugin needs C11 or C++ and this header;
 * it links with no library of svc.
 *
 *     int32_t svc_plugin_entry(const svc_host_api *host, svc_plugin *plugin)
 *     {
 *         plugin->size = sizeof *plugin;
 *         plugin->abi = SVC_PLUGIN_ABI;
 *         plugin->name = SVC_TEXT("clock");
 *         plugin->version = SVC_TEXT("1.0.0");
 *         plugin->health = my_health;
 *         return SVC_OK;
 *     }
 *
 *     cc -std=c11 -shared -fPIC -fvisibility=hidden -o clock.so clock.c
 *     PLUGINS=/absolute/path/clock.so svc
 *
 * Life cycle
 *
 *     load ──▶ svc_plugin_entry ──▶ init ──▶ start ──▶ health, metrics, config, serve, request_ended ... ──▶ stop
 *
 *   - svc_plugin_entry() is called on the main thread, before svc serves requests. It must only fill in the struct:
 *     `svc check` calls it as well, and calls nothing else afterwards.
 *   - All other callbacks run on one thread per plugin, one at a time. A plugin needs locks only for threads that it
 *     starts itself.
 *   - Serving never waits for a plugin: a slow callback delays only the other callbacks of the same plugin. A callback
 *     that runs for more than 5 seconds makes the plugin `degraded`, and one that runs for more than 60 seconds makes it
 *     `failed`, until it returns.
 *   - init must return within 60 seconds. The start of svc waits for it, unless a signal stops svc first.
 *   - stop is called once when svc ends if init has succeeded, even if start has failed. svc waits for it until the drain
 *     is over (DRAIN_TIMEOUT_SECONDS), and then exits without it.
 *   - Libraries are never unloaded. If a plugin crashes, so does svc.
 *   - Standard output carries svc's log, one JSON object per line: use log() instead.
 *   - svc handles SIGHUP, SIGINT, SIGQUIT and SIGTERM, and blocks them on all threads; SIGPIPE is ignored. They are
 *     unblocked in children of fork(), and blocked in those of system(), popen() and posix_spawn(), unless the attributes
 *     of the last say otherwise. Never unblock them on a thread of svc: the signal would end svc without a drain.
 *
 * Memory
 *
 *   - A text is a pointer and a length. It is UTF-8 and needs no terminating NUL.
 *   - Arguments of a callback are valid until the callback returns; copy them to keep them. Settings are the exception:
 *     they stay valid until svc exits.
 *   - svc copies the arguments of its functions before they return.
 *   - name and version must stay valid until svc_plugin_entry() has returned.
 *   - Each side frees only its own memory.
 *
 * Errors
 *
 *   - A callback returns SVC_OK or SVC_FAILED; any other value except 0 counts as SVC_FAILED. Call explain() first to
 *     give the reason, which svc logs.
 *   - A function of svc returns SVC_OK, or one of the codes below; in that case it has had no effect.
 *   - C++ exceptions, longjmp() and Rust panics must not leave a callback.
 *
 * Versions
 *
 *   - SVC_PLUGIN_ABI changes when plugins must be recompiled; svc loads only plugins of its own version.
 *   - Within a version, structs only grow at the end. Each begins with its size: the reader of a struct uses its first
 *     `size` bytes and treats missing members as 0. A plugin compiled with an older header therefore works with a newer
 *     svc. One compiled with a newer header works with an older svc if it checks with SVC_HAS() that a function exists
 *     before it calls it.
 */
#ifndef SVC_PLUGIN_H
#define SVC_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this contract. */
#define SVC_PLUGIN_ABI 1

/* Maximum lengths in bytes; longer values are rejected with SVC_TOO_LARGE. */
#define SVC_NAME_MAX 32                 /* the name of a plugin */
#define SVC_CONFIG_MAX (64 * 1024)      /* the answer of config */
#define SVC_PAGE_MAX (8 * 1024 * 1024)  /* the body of a page */
#define SVC_METRICS_MAX (256 * 1024)    /* all texts of the answer of metrics together */

/* Maximum length in bytes; longer texts are truncated. */
#define SVC_HEALTH_TEXT_MAX 1024        /* the text of the answer of health */

/* Return values of functions and callbacks. */
enum {
    SVC_OK = 0,
    SVC_FAILED = 1,     /* the operation has failed */
    SVC_INVALID = 2,    /* an argument is malformed: NULL, not UTF-8, not JSON, or an invalid name or number */
    SVC_TOO_LARGE = 3,  /* an argument exceeds its maximum length */
    SVC_DUPLICATE = 4,  /* the family or series already exists */
    SVC_NOT_NOW = 5,    /* out of order: a sample without a family, or an answer of another callback */
    SVC_NOT_FOUND = 6   /* the setting does not exist */
};

/* The health of a plugin. */
enum {
    SVC_HEALTH_OK = 0,
    SVC_HEALTH_DEGRADED = 1,  /* needs attention; svc stays ready */
    SVC_HEALTH_FAILED = 2     /* /health and the readiness probe respond with 503 */
};

/* Log levels. */
enum {
    SVC_LOG_ERROR = 0,
    SVC_LOG_WARN = 1,
    SVC_LOG_INFO = 2,
    SVC_LOG_DEBUG = 3
};

/* Types of metrics. */
enum {
    SVC_COUNTER = 0,  /* only increases; the name ends in _total */
    SVC_GAUGE = 1     /* may increase and decrease */
};

/* Stands for an unknown number. */
#define SVC_UNKNOWN UINT64_MAX

/* A text: `size` bytes from `data`. An empty text may have any pointer. */
typedef struct svc_text {
    const char *data;
    size_t size;
} svc_text;

/* A label of a series. */
typedef struct svc_label {
    svc_text name;   /* [a-z][a-z0-9_]* of up to 100 bytes, without a _ at its end; not le or quantile */
    svc_text value;  /* without control characters, up to 1024 bytes */
} svc_label;

/* The plugin; opaque. */
typedef struct svc_host svc_host;

/* Handles for the answers of callbacks. A handle is valid until its callback returns, and only on the thread of that
   callback. Other handles are rejected with SVC_NOT_NOW, and so are handles of another type. A handle is a number, not an
   address: do not dereference it. */
typedef struct svc_health svc_health;
typedef struct svc_config svc_config;
typedef struct svc_page svc_page;
typedef struct svc_metrics svc_metrics;

/*
 * Functions of svc. Filled in by svc and valid until svc exits; a plugin may keep the pointer.
 */
typedef struct svc_host_api {
    size_t size;
    uint32_t abi;        /* SVC_PLUGIN_ABI of svc */
    uint32_t reserved;
    svc_text version;    /* of svc */
    svc_host *host;      /* the first argument of the functions below */

    /* Writes a record with an SVC_LOG_ level to svc's log. May be called on any thread; never blocks. */
    void (*log)(svc_host *host, int32_t level, svc_text message);

    /* Reads the setting PLUGIN_<NAME>_<KEY>; `key` is in upper case, as in the environment. May be called from init on,
       on any thread. Returns SVC_NOT_FOUND if it is not set. The value is followed by a NUL. */
    int32_t (*setting)(svc_host *host, svc_text key, svc_text *value);

    /* Sets the reason for which the running callback, or svc_plugin_entry(), is about to return SVC_FAILED. */
    void (*explain)(svc_host *host, svc_text reason);

    /* The functions below give the answers of callbacks. If a callback has one answer, the last accepted one counts; a
       callback that returns without an answer has failed. */

    /* Answers health with an SVC_HEALTH_ status and a text for operators, truncated to SVC_HEALTH_TEXT_MAX bytes. The
       text is logged when the status changes. */
    int32_t (*answer_health)(svc_health *answer, int32_t status, svc_text text);

    /* Answers config with a JSON object of up to 64 KiB, nested up to 64 levels. Must not contain secrets. */
    int32_t (*answer_config)(svc_config *answer, svc_text json);

    /* Answers serve with a status from 200 to 599, the value of Content-Type (up to 256 printable ASCII characters with a
       slash), and a body, which is not sent with 204, 205 and 304. */
    int32_t (*answer_page)(svc_page *answer, int32_t status, svc_text type, svc_text body);

    /* Begins a metric family: SVC_COUNTER or SVC_GAUGE; the part of its name after svc_plugin_<name>_ ([a-z][a-z0-9_]* of
       up to 100 bytes, not ending in _); and its help, one line of 1 to 1024 bytes without quotes and backslashes, and
       without leading and trailing spaces. */
    int32_t (*add_family)(svc_metrics *answer, int32_t type, svc_text name, svc_text help);

    /* Adds a series with up to 16 labels to the current family. Values are finite, and those of counters are not negative.
       If a series is rejected, the others are kept. */
    int32_t (*add_sample)(svc_metrics *answer, const svc_label *labels, size_t label_count, double value);
} svc_host_api;

/*
 * A request for a page of the plugin. Filled in by svc.
 */
typedef struct svc_page_request {
    size_t size;
    svc_text path;   /* the part after /plugins/<name>/ as received, neither decoded nor normalised */
    svc_text query;  /* the part after the question mark; empty without one */
} svc_page_request;

/*
 * A request to the main port that has ended. Filled in by svc.
 */
typedef struct svc_request_facts {
    size_t size;
    svc_text method;         /* as received; method and path are empty if they could not be parsed */
    svc_text path;           /* without the query; not decoded, and perhaps not UTF-8 */
    svc_text protocol;       /* such as HTTP/1.1 */
    svc_text client;         /* the address of the client */
    svc_text request_id;
    svc_text trace_id;       /* empty without a trace */
    svc_text shed_reason;    /* the reason for a refusal; empty if it was admitted */
    int32_t status;          /* 499 if the client disconnected before the response */
    int32_t reserved;
    uint64_t response_bytes; /* of the body */
    uint64_t duration_us;    /* from the first byte of the request to the last byte of the response */
    uint64_t queue_wait_us;  /* SVC_UNKNOWN if no worker took it */
} svc_request_facts;

/*
 * A plugin and its callbacks. Zeroed by svc and filled in by svc_plugin_entry(); callbacks that are NULL are not called.
 * svc provides 4096 bytes, so that a plugin compiled with a newer header can fill in its struct.
 */
typedef struct svc_plugin {
    size_t size;       /* sizeof(svc_plugin) */
    uint32_t abi;      /* SVC_PLUGIN_ABI */
    uint32_t reserved; /* 0 */
    svc_text name;     /* [a-z][a-z0-9_]*; the name in PLUGINS if it is loaded by name */
    svc_text version;  /* shown in /config; 1 to 256 bytes */
    void *state;       /* the first argument of each callback */

    /* Reads settings and prepares. If it fails, svc does not start. */
    int32_t (*init)(void *state);

    /* svc begins to serve. If it fails, the plugin is `failed`, and only stop is called afterwards. */
    int32_t (*start)(void *state);

    /* svc ends. */
    void (*stop)(void *state);

    /* Calls answer_health(). Called about once a second. A failure counts as SVC_HEALTH_FAILED. A plugin without this
       callback does not appear in /health unless its start has failed. */
    int32_t (*health)(void *state, svc_health *answer);

    /* Calls answer_config() with the plugin's part of /config, which also shows its version and path. Called about once a
       second. */
    int32_t (*config)(void *state, svc_config *answer);

    /* Calls answer_page(). Called for GET and HEAD below /plugins/<name>/ on the operations port, if the peer may read
       metrics. */
    int32_t (*serve)(void *state, const svc_page_request *request, svc_page *answer);

    /* Calls add_family() and add_sample() for all families. Called about once a second; /metrics shows the last answer. */
    int32_t (*metrics)(void *state, svc_metrics *answer);

    /* A request has ended. If requests end faster than this callback handles them, some are dropped and counted. */
    int32_t (*request_ended)(void *state, const svc_request_facts *facts);
} svc_plugin;

/* Evaluates to whether svc provides the member `member` of svc_host_api. */
#define SVC_HAS(host, member) \
    ((host)->size >= offsetof(svc_host_api, member) + sizeof((host)->member))

/* Makes a text of a string literal. */
#ifdef __cplusplus
#define SVC_TEXT(literal) (svc_text{literal, sizeof(literal) - 1})
#else
#define SVC_TEXT(literal) ((svc_text){literal, sizeof(literal) - 1})
#endif

/* Defined and exported by a plugin. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int32_t svc_plugin_entry(const svc_host_api *host, svc_plugin *plugin);

#ifdef __cplusplus
}
#endif

#endif
