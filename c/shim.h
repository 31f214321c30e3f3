/* The contract between svc and the PHP interpreter.
 *
 * Promises: no Zend type crosses this border. Every entry point that runs PHP catches PHP's non-local exits itself;
 * a callback is never left by a jump: it returns, and only then does C act on what it said.
 *
 * Threads: shim_startup and shim_shutdown run on one thread, first and last. Every other thread calls
 * shim_thread_start before and shim_thread_stop after its requests. shim_run, and all callbacks that it makes, stay
 * on that thread.
 *
 * Memory: a struct is owned by the side that fills it; {pointer, length} views are valid for the duration of the call
 * they are passed to, or until the next callback of the same request when a callback hands them out. Nothing is
 * terminated by NUL.
 */
#ifndef SVC_SHIM_H
#define SVC_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Raised with every change of this file; both sides compare. */
#define SHIM_ABI 13

/* A view of bytes. `bytes` may be NULL when `length` is 0. */
typedef struct shim_view {
    const char *bytes;
    size_t length;
} shim_view;

/* A name and a value. */
typedef struct shim_pair {
    shim_view name;
    shim_view value;
} shim_pair;

/* A list of pairs, filled by a callback; the storage is the host's. */
typedef struct shim_pairs {
    const shim_pair *pairs;
    size_t count;
} shim_pairs;

/* Where a log record comes from. Filled by C. */
typedef enum shim_log_source {
    /* An error of the engine: `error_type` is PHP's E_ constant. */
    SHIM_LOG_ERROR = 0,
    /* error_log() and other messages without a type: `syslog_priority` is all there is. */
    SHIM_LOG_MESSAGE = 1,
    /* frankenphp_log(): `script_level` and, if the script gave one, `context` belong to it. */
    SHIM_LOG_SCRIPT = 2,
} shim_log_source;

/* How important a script says that its record is. */
typedef enum shim_script_level {
    SHIM_SCRIPT_DEBUG = 0,
    SHIM_SCRIPT_INFO = 1,
    SHIM_SCRIPT_WARNING = 2,
    SHIM_SCRIPT_ERROR = 3,
} shim_script_level;

/* One log record. Filled by C. */
typedef struct shim_log {
    shim_log_source source;
    int error_type;
    int syslog_priority;
    shim_script_level script_level;
    shim_view message;
    /* JSON, or empty. */
    shim_view context;
    shim_view file;
    uint32_t line;
} shim_log;

/* Status and fields of a response. Filled by C. */
typedef struct shim_head {
    int status;
    /* The whole line given with header("HTTP/1.1 404 ..."), or empty. */
    shim_view status_line;
    /* Each one `Name: value` as PHP keeps it. */
    const shim_view *lines;
    size_t count;
} shim_head;

/* How the host takes part in a request. Filled by the host, valid for the life of the process. `request` is what
 * shim_run was given. Whoever does not listen leaves an entry NULL: then output is taken and dropped, there is nothing to
 * be read, and a question is answered with no. */

/* A request comes in, and its reply goes out. */
typedef struct shim_io_callbacks {
    /* Output. False: nobody reads it any more. */
    bool (*write)(void *request, shim_view output);
    /* The script wants what it wrote to reach the client now. False: nobody reads it any more. */
    bool (*flush)(void *request);
    /* Status and fields, once, before the first output. */
    void (*send_head)(void *request, const shim_head *head);
    /* An informational response (1xx). */
    void (*send_interim)(void *request, const shim_head *head);
    /* The response ends here although the script goes on. */
    void (*finish)(void *request);
    /* max_execution_time has ended the script: the response ends here, shutdown functions still run. */
    void (*time_limit)(void *request);
    /* Whether the client has hung up. */
    bool (*is_gone)(void *request);
    /* Whether output would hold the thread until its reader has made room. */
    bool (*is_crowded)(void *request);
    /* Copies up to `size` bytes of the body to `buffer`; returns how many, 0 at its end. */
    size_t (*read_body)(void *request, char *buffer, size_t size);
    /* Copies up to `size` bytes of the body from `offset` on; leaves what read_body comes to next as it is. */
    size_t (*read_body_at)(void *request, char *buffer, size_t size, uint64_t offset);
    /* The variables of $_SERVER; their names consist of letters, digits and underscores. */
    void (*variables)(void *request, shim_pairs *out);
    /* The request's fields as they came. */
    void (*fields)(void *request, shim_pairs *out);
    /* Path and query as they came. */
    void (*target)(void *request, shim_view *out);
    /* The address of the request's client. */
    void (*client)(void *request, shim_view *out);
    /* The request's name in logs. */
    void (*request_id)(void *request, shim_view *out);
    /* One log record; `request` is NULL outside of requests. */
    void (*log)(void *request, const shim_log *record);
} shim_io_callbacks;

/* Worker mode: who serves, and what becomes of each request. */
typedef struct shim_worker_callbacks {
    /* The script of the worker `boot` waits for requests: the host begins them with shim_request_start,
     * resumes them with shim_fiber_resume, sleeps with shim_wait, and returns when the worker ends and none is left. */
    void (*serve)(void *boot);
    /* The same for one request at a time: waits for one and runs it with shim_request_here; false when the worker
     * ends. */
    bool (*serve_one)(void *boot);
    /* The reply of the request has ended, and nothing more is said for it. What the request leaves is freed
     * now, which may run scripts' code and may wait: `parks` and `resumes` may follow. */
    void (*ended)(void *request, int outcome);
    /* Nothing of it is left. `request` is the host's again and not used any more. */
    void (*freed)(void *request);
    /* The request waits without its thread from now on; it goes on. */
    void (*parks)(void *request);
    void (*resumes)(void *request);
} shim_worker_callbacks;

/* What one thread says once, and a request of another thread may wait for: its two ends. Each is the host's, and is given
 * back once; either may be given back first, and both may outlive the thread that they were made on. */
typedef struct shim_completion shim_completion;
typedef struct shim_completer shim_completer;

/* Requests wait for at most as many sets with completions at a time, on one thread. */
#define SHIM_WAITERS_MAX 256

/* Completions. What a thread writes before it completes one is seen by whoever finds it complete. */
typedef struct shim_completion_callbacks {
    /* Makes one that requests of the calling thread can wait for. False: none of its requests can wait. */
    bool (*make)(shim_completion **completion, shim_completer **completer);
    /* It is complete, or will never be. Gives the completer back. On any thread; wait-free but for one write to the
     * descriptor that wakes a thread. */
    void (*complete)(shim_completer *completer);
    /* The others on the thread that it was made on.
     *
     * From now on the waiter of this number waits for it, and shim_waiter_notify is called with that when it has been
     * completed. One waits at a time. False: it is complete. */
    bool (*wait)(shim_completion *completion, uint32_t waiter);
    /* Nobody waits for it any more. The host may still call for the waiter once. */
    void (*stop_waiting)(shim_completion *completion);
    bool (*is_complete)(shim_completion *completion);
    /* Gives it back: whoever was to complete it does so for nobody. */
    void (*drop)(shim_completion *completion);
} shim_completion_callbacks;

/* Restarts of OPcache. */
typedef struct shim_restart_callbacks {
    /* OPcache wants to restart: whether the calling thread is the only one inside a request, and others will be kept
     * out until shim_run has called `done`. */
    bool (*may_begin)(void);
    void (*done)(void);
    /* OPcache has been told to restart, or found out that it must. On any PHP thread, which may hold OPcache's lock. */
    void (*wanted)(void);
    /* The worker of the calling thread has started up, and uses OPcache's memory or not for as long as it lives. */
    void (*worker_started)(bool uses_cache);
} shim_restart_callbacks;

typedef struct shim_callbacks {
    /* sizeof(shim_callbacks) on the host's side. */
    size_t size;
    shim_io_callbacks io;
    shim_worker_callbacks worker;
    shim_completion_callbacks completion;
    shim_restart_callbacks restart;
} shim_callbacks;

/* What PHP is started with. Filled by the host; only read during shim_startup, except `callbacks`. */
typedef struct shim_options {
    /* SHIM_ABI of the host. */
    uint32_t abi;
    const shim_callbacks *callbacks;
    /* Values that php.ini overrides. */
    const shim_pair *ini_defaults;
    size_t ini_defaults_count;
    /* Lines in php.ini's syntax that override php.ini. */
    shim_view ini_overrides;
    /* Whether scripts find their request in $_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST and $_SERVER. */
    bool superglobals;
} shim_options;

/* Facts of the PHP that is linked. Filled by C; views of static storage. */
typedef struct shim_facts {
    shim_view version;
    bool zts;
    bool debug;
    bool zend_signals;
    bool max_execution_timers;
    bool opcache_enabled;
    /* The system lets each thread have its own file mode mask; otherwise umask() acts on the process. */
    bool umask_per_thread;
    /* OPcache looks whether scripts have changed on disk. */
    bool opcache_validates;
    shim_view ini_path;
} shim_facts;

/* One request. Filled by the host, valid until shim_run returns. */
typedef struct shim_request {
    /* What the host calls it, among the requests of its thread; 0: nobody waits for its answer. */
    uint64_t number;
    shim_view method;
    /* The script's name and what follows it in the path, decoded, without the query. Extensions that route by it
     * (Phar::webPhar) expect Apache's reading; $_SERVER['REQUEST_URI'] is another thing. */
    shim_view uri;
    /* Without the question mark. */
    shim_view query;
    shim_view content_type;
    bool has_content_type;
    /* All Cookie fields, joined. */
    shim_view cookies;
    bool has_cookies;
    shim_view authorization;
    /* The script's absolute path. */
    shim_view script;
    int64_t content_length;
    /* 1000 for HTTP/1.0, 1001 for HTTP/1.1, 2000 for HTTP/2. */
    int protocol;
    /* Unix time of the request's arrival, in seconds. */
    double time;
} shim_request;

/* How a script ended. */
typedef enum shim_outcome {
    /* It ran to its end, or called exit(). */
    SHIM_COMPLETE = 0,
    /* A fatal error or an uncaught exception. */
    SHIM_FATAL = 1,
    /* max_execution_time. */
    SHIM_TIME_LIMIT = 2,
    /* The client had left; output was refused. */
    SHIM_ABORTED = 3,
    /* Worker mode: a fatal error that the worker does not outlive, once the other requests have ended. */
    SHIM_LOST = 4,
} shim_outcome;

/* Starts PHP. Returns NULL, or a static text that says why not. */
const char *shim_startup(const shim_options *options);

/* Fills `facts`. After shim_startup. */
void shim_facts_read(shim_facts *facts);

/* Ends PHP. All other threads have called shim_thread_stop. */
void shim_shutdown(void);
/* OPcache is to be emptied by the next request that starts up; from then on code is as it is on disk. On any thread. */
void shim_cache_refresh(void);

/* Prepares the calling thread for shim_run. */
void shim_thread_start(void);

/* Frees what shim_thread_start and the thread's requests left behind. */
void shim_thread_stop(void);

/* Runs one request from start-up to shut-down. */
shim_outcome shim_run(const shim_request *request, void *host);

/* The question to a thread whether it executes instructions of a script. Owned by C, one a thread; made on the thread
 * after shim_thread_start, and stopped there before shim_thread_stop, while nobody asks. NULL: no memory. */
typedef struct shim_interrupter shim_interrupter;
shim_interrupter *shim_interrupter_start(void);
void shim_interrupter_stop(shim_interrupter *interrupter);

/* Asks, on any thread; what was answered before is forgotten. */
void shim_interrupter_ask(shim_interrupter *interrupter);

/* Whether the last question was answered: at once by a thread that executes instructions, not by one that is inside a
 * system call or a function. */
bool shim_interrupter_is_answered(const shim_interrupter *interrupter);

/* To be called about once a second, by one other thread at a time: the time limit of the thread's script is kept by
 * whoever calls, and by the kernel only when it is near. Nobody has to call; limits are then the kernel's at once.
 * Returns the number of the request whose limit is over while its thread has not come to ending it: it is inside of a
 * call. 0: there is none. */
uint64_t shim_interrupter_look(shim_interrupter *interrupter);

/* ---- worker mode ---- */

/* A worker, as its script sees it. Filled by the host. */
typedef struct shim_worker_card {
    int64_t id;
    /* Unix time, in seconds. */
    double started;
} shim_worker_card;

/* Runs the script of a worker, from start-up to shut-down; it calls Svc\Worker::serve() or frankenphp_handle_request().
 * Until it returns, the functions below may be called inside of `serve` and `serve_one`, on the same thread. */
shim_outcome shim_boot(const shim_request *request, void *host, const shim_worker_card *card);

/* The worker takes no more requests: Svc\Worker::exitReason() says why. At most 15 bytes of `reason` are kept. */
void shim_worker_leaves(shim_view reason);

/* What became of a request. */
typedef enum shim_progress {
    /* There was none to be resumed. */
    SHIM_NOTHING = 0,
    /* It waits; its thread is free. */
    SHIM_WAITS = 1,
    /* It has ended, and nothing of it is left: its host has been told. */
    SHIM_ENDED = 2,
} shim_progress;

/* Begins a request on a fiber and runs it until it waits or ends; where there is no memory for it, it ends at once.
 * `request` is read before this returns. */
shim_progress shim_request_start(const shim_request *request, void *host);

/* Runs a request to its end on the thread's own stack. */
void shim_request_here(const shim_request *request, void *host);

/* Resumes the request that has been ready for longest. */
shim_progress shim_fiber_resume(void);

/* Looks which requests have become ready. Returns how many are. */
size_t shim_look(void);

/* The same; if none is, sleeps until one is, or until the worker's descriptor is written to. */
size_t shim_wait(void);

/* Something that the waiter of this number waits for, or has waited for, may be complete. Returns whether a request can
 * go on by it. To be called after shim_look and shim_wait, which take the thread's wake-ups. */
bool shim_waiter_notify(uint32_t number);

/* A new descriptor of an eventfd(2) that wakes the calling thread's shim_wait when it is written to; the caller's to
 * close. -1: the system gives none. */
int shim_wake_descriptor(void);

/* What the host wants to know of the worker of the calling thread. Filled by C. */
typedef struct shim_worker_facts {
    /* PHP's heap. */
    size_t heap_bytes;
    /* A request has left memory behind that only a new boot frees. */
    bool tainted;
    /* Svc\Worker::scheduleExit() has been called. */
    bool exit_scheduled;
    /* There is so much possible garbage that shim_worker_tidy() should be called, now that no request runs. */
    bool tidy_wanted;
} shim_worker_facts;
void shim_worker_facts_read(shim_worker_facts *facts);

/* Collects garbage, in nobody's name: destructors run, and what they print goes nowhere. Between requests. */
void shim_worker_tidy(void);

/* The name of an extension that keeps something for a thread of which nobody has said whether it is a request's or the
 * thread's; empty when there is none. For tests. */
shim_view shim_state_stray(void);

/* An extension that is known to keep something for a request, and keeps it otherwise in this PHP: that stays with the
 * thread. Filled by C. */
typedef struct shim_unfit {
    shim_view extension;
    /* The shim was compiled with headers that say otherwise: they are another PHP's. */
    bool has_header;
} shim_unfit;
/* The index-th one; false: there are no more. */
bool shim_state_unfit(size_t index, shim_unfit *unfit);

/* What travels with requests of an extension's struct. Filled by C, for tests. */
typedef struct shim_span {
    shim_view module;
    size_t struct_size;
    size_t offset;
    size_t size;
} shim_span;
/* The index-th one; false: there are no more. */
bool shim_state_span(size_t index, shim_span *span);

/* Blocks SIGHUP, SIGINT and SIGTERM in the calling thread and all that it starts, and ignores SIGPIPE. */
void shim_signals_block(void);

/* Waits for one of the blocked signals and returns its number. */
int shim_signals_wait(void);

/* Ends the process at once with `status`, without any exit handler: threads may still run PHP. */
_Noreturn void shim_exit_now(int status);

#endif
