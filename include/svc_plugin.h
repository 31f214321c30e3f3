/*
 * svc_plugin.h: what a plugin of svc and svc know of each other.
 *
 * A plugin is a shared library that svc loads at its start. It is one C function, svc_plugin_entry(), which fills in a
 * struct of callbacks; svc gives it a struct of functions in return. This header is all that a plugin needs: C11 (or
 * C++), no library, no other file of svc.
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
 * The life of a plugin
 *
 *     load ──▶ svc_plugin_entry ──▶ init ──▶ start ──▶ health, metrics, config, serve, request_ended ... ──▶ stop
 *
 *   - svc_plugin_entry() is called on svc's main thread, before anything is served. It fills in the struct and does
 *     nothing else: `svc check` calls it too, and nothing after it.
 *   - Every other callback is called on one thread that is the plugin's own, one callback at a time. A plugin needs
 *     no locks, unless it starts threads itself.
 *   - Nothing of svc waits for a plugin while it serves. Whatever takes long in a callback delays the plugin's other
 *     callbacks, and nothing else. A callback that takes more than 5 seconds makes the plugin `degraded`, and one that
 *     takes more than 60 seconds makes it `failed`, until it returns.
 *   - init must return within 60 seconds; the start of svc waits for it, unless a signal stops svc meanwhile.
 *   - stop is called once if init succeeded, whatever start returned, when svc ends. svc waits for it until the drain is
 *     over (DRAIN_TIMEOUT_SECONDS), and then ends without it.
 *   - A library is never unloaded. A plugin that crashes takes svc with it.
 *   - Standard output is svc's log, a JSON object on each line: use log() instead.
 *   - SIGHUP, SIGINT, SIGQUIT and SIGTERM are svc's, and blocked on all threads; SIGPIPE is ignored. A child of fork()
 *     has the four unblocked. One of posix_spawn() has them blocked unless its attributes say otherwise, and so has
 *     what system() and popen() start. Never unblock them on a thread of svc's process: that ends it without a drain.
 *
 * Memory
 *
 *   - Texts are a pointer and a length. They need no NUL at their end, and they are UTF-8.
 *   - What svc passes to a callback is valid until the callback returns. What a plugin wants to keep, it copies.
 *     Settings are the exception: they are valid for ever.
 *   - What a plugin passes to a function of svc is copied before the function returns.
 *   - name and version must be valid until svc_plugin_entry() has returned.
 *   - Nobody frees what another has allocated.
 *
 * Errors
 *
 *   - A callback returns SVC_OK or SVC_FAILED (any other value but 0 is taken for SVC_FAILED). explain(), called
 *     before, says why; svc logs it.
 *   - A function of svc returns SVC_OK or one of the codes below, and then it has done nothing.
 *   - No C++ exception, longjmp() or Rust panic may leave a callback.
 *
 * Versions
 *
 *   - SVC_PLUGIN_ABI changes when plugins have to be compiled again; svc loads plugins of one version only.
 *   - Within a version, structs grow at their end only. That is why each begins with its size: whoever reads a struct
 *     of the other side uses its first `size` bytes, and takes what is missing for 0. A plugin that was compiled with an
 *     older header thus works with a newer svc. One that was compiled with a newer header works with an older svc, if
 *     it checks with SVC_HAS() that a function is there before it calls it.
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

/* Bounds: whatever is longer is refused with SVC_TOO_LARGE. */
#define SVC_NAME_MAX 32                 /* the name of a plugin */
#define SVC_CONFIG_MAX (64 * 1024)      /* an answer to config */
#define SVC_PAGE_MAX (8 * 1024 * 1024)  /* the body of a page */
#define SVC_METRICS_MAX (256 * 1024)    /* all texts of an answer to metrics together */

/* Whatever is longer is cut off. */
#define SVC_HEALTH_TEXT_MAX 1024        /* the text of an answer to health */

/* What functions and callbacks return. */
enum {
    SVC_OK = 0,
    SVC_FAILED = 1,     /* it did not work */
    SVC_INVALID = 2,    /* an argument is malformed: NULL, not UTF-8, not JSON, a name or a number against the rules */
    SVC_TOO_LARGE = 3,  /* an argument is longer than its bound */
    SVC_DUPLICATE = 4,  /* a family or a series is there already */
    SVC_NOT_NOW = 5,    /* not at this time: a sample without a family, an answer of another callback */
    SVC_NOT_FOUND = 6   /* there is no such setting */
};

/* How a plugin is. */
enum {
    SVC_HEALTH_OK = 0,
    SVC_HEALTH_DEGRADED = 1,  /* worth a look; svc stays ready */
    SVC_HEALTH_FAILED = 2     /* /health and readiness answer 503 */
};

/* The levels of the log. */
enum {
    SVC_LOG_ERROR = 0,
    SVC_LOG_WARN = 1,
    SVC_LOG_INFO = 2,
    SVC_LOG_DEBUG = 3
};

/* What the numbers of a family of metrics do. */
enum {
    SVC_COUNTER = 0,  /* they only grow; the name ends in _total */
    SVC_GAUGE = 1     /* they go up and down */
};

/* In place of a number that is not known. */
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

/* The plugin as svc knows it. */
typedef struct svc_host svc_host;

/* Where callbacks put their answers. Each is valid until its callback returns, on the thread that called it; anywhere
   else, and in place of another kind, it is refused with SVC_NOT_NOW. It is a number and no address: do not follow it. */
typedef struct svc_health svc_health;
typedef struct svc_config svc_config;
typedef struct svc_page svc_page;
typedef struct svc_metrics svc_metrics;

/*
 * What svc offers. Filled by svc, and valid for ever; a plugin keeps the pointer.
 */
typedef struct svc_host_api {
    size_t size;
    uint32_t abi;        /* SVC_PLUGIN_ABI of svc */
    uint32_t reserved;
    svc_text version;    /* of svc */
    svc_host *host;      /* the first argument of the functions below */

    /* Writes a record to svc's log, at an SVC_LOG_ level. On any thread; never waits. */
    void (*log)(svc_host *host, int32_t level, svc_text message);

    /* Finds the setting PLUGIN_<NAME>_<KEY>: `key` is written as in the environment, in upper case. From init on, on
       any thread. Returns SVC_NOT_FOUND if it is not set. The value is followed by a NUL. */
    int32_t (*setting)(svc_host *host, svc_text key, svc_text *value);

    /* Says why the callback that runs (or svc_plugin_entry) is going to return SVC_FAILED. */
    void (*explain)(svc_host *host, svc_text reason);

    /* The functions below answer callbacks. Where there is one answer, the last counts that was not refused; a callback
       that returns without one has failed. */

    /* Answers health: an SVC_HEALTH_ status, and what an operator should know, of which svc keeps the first
       SVC_HEALTH_TEXT_MAX bytes; the text goes to the log when the status changes. */
    int32_t (*answer_health)(svc_health *answer, int32_t status, svc_text text);

    /* Answers config: a JSON object of up to 64 KiB, with up to 64 levels of objects and arrays. Keep secrets out of it. */
    int32_t (*answer_config)(svc_config *answer, svc_text json);

    /* Answers serve: a status from 200 to 599, the value of Content-Type (a slash among printable ASCII characters, up to
       256 of them), the body, which is not sent with 204, 205 and 304. */
    int32_t (*answer_page)(svc_page *answer, int32_t status, svc_text type, svc_text body);

    /* Begins a family of metrics: SVC_COUNTER or SVC_GAUGE, the part of its name after svc_plugin_<name>_ ([a-z][a-z0-9_]*
       of up to 100 bytes, without a _ at its end), and its help: one line of 1 to 1024 bytes, without quotes and
       backslashes, and without spaces at its ends. */
    int32_t (*add_family)(svc_metrics *answer, int32_t type, svc_text name, svc_text help);

    /* Adds a series to the family that was begun last, with up to 16 labels. Numbers are finite, and those of a counter
       not negative. A series is refused, and the others are kept. */
    int32_t (*add_sample)(svc_metrics *answer, const svc_label *labels, size_t label_count, double value);
} svc_host_api;

/*
 * What is asked of serve. Filled by svc.
 */
typedef struct svc_page_request {
    size_t size;
    svc_text path;   /* what follows /plugins/<name>/, as the client wrote it: nothing is decoded or normalised */
    svc_text query;  /* what follows the question mark; empty if there is none */
} svc_page_request;

/*
 * A request of the main port that has ended. Filled by svc.
 */
typedef struct svc_request_facts {
    size_t size;
    svc_text method;         /* as the client wrote it; empty if it could not be read, as the path */
    svc_text path;           /* without the query; not decoded, and perhaps not UTF-8 */
    svc_text protocol;       /* such as HTTP/1.1 */
    svc_text client;         /* the address of the client */
    svc_text request_id;
    svc_text trace_id;       /* empty without a trace */
    svc_text shed_reason;    /* why it was not admitted; empty if it was */
    int32_t status;          /* 499 if the client had left before the response */
    int32_t reserved;
    uint64_t response_bytes; /* of the body */
    uint64_t duration_us;    /* from the first byte of the request to the last byte of the response */
    uint64_t queue_wait_us;  /* SVC_UNKNOWN if no worker took it */
} svc_request_facts;

/*
 * What a plugin offers. Zeroed by svc before svc_plugin_entry(), and filled by it; callbacks that are NULL are not
 * called. There is room for 4096 bytes, so that a plugin that was compiled with a newer header can fill in its struct.
 */
typedef struct svc_plugin {
    size_t size;       /* sizeof(svc_plugin) */
    uint32_t abi;      /* SVC_PLUGIN_ABI */
    uint32_t reserved; /* 0 */
    svc_text name;     /* [a-z][a-z0-9_]*; the name in PLUGINS, if the plugin is loaded by its name */
    svc_text version;  /* shown in /config; 1 to 256 bytes */
    void *state;       /* the first argument of each callback */

    /* Reads settings and prepares. An error stops the start of svc. */
    int32_t (*init)(void *state);

    /* svc begins to serve. An error makes the plugin `failed`, and no other callback but stop is called. */
    int32_t (*start)(void *state);

    /* svc ends. */
    void (*stop)(void *state);

    /* Calls answer_health(). About once a second. An error counts as SVC_HEALTH_FAILED. A plugin without this callback
       is not in /health, unless it could not be started. */
    int32_t (*health)(void *state, svc_health *answer);

    /* Calls answer_config(). About once a second. What /config shows of the plugin, beside its version and path. */
    int32_t (*config)(void *state, svc_config *answer);

    /* Calls answer_page(). For GET and HEAD below /plugins/<name>/ on the operations port, from peers that may read
       metrics. */
    int32_t (*serve)(void *state, const svc_page_request *request, svc_page *answer);

    /* Calls add_family() and add_sample(), each time with all families. About once a second; /metrics shows the last
       answer. */
    int32_t (*metrics)(void *state, svc_metrics *answer);

    /* A request has ended. If requests end faster than this callback takes them, facts are dropped and counted. */
    int32_t (*request_ended)(void *state, const svc_request_facts *facts);
} svc_plugin;

/* Whether svc has the function or field `member` of svc_host_api. */
#define SVC_HAS(host, member) \
    ((host)->size >= offsetof(svc_host_api, member) + sizeof((host)->member))

/* A literal as a text. */
#ifdef __cplusplus
#define SVC_TEXT(literal) (svc_text{literal, sizeof(literal) - 1})
#else
#define SVC_TEXT(literal) ((svc_text){literal, sizeof(literal) - 1})
#endif

/* What a plugin defines and exports. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int32_t svc_plugin_entry(const svc_host_api *host, svc_plugin *plugin);

#ifdef __cplusplus
}
#endif

#endif
