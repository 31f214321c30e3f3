/* The contract between svc and the PHP interpreter.
 *
 * No Zend type crosses this interface. Every entry point that runs PHP catches PHP's bailouts itself; no bailout
 * leaves a callback: it returns, and only then does C act on its result.
 *
 * Threads: shim_startup and shim_shutdown run on one thread, first and last. Every other thread calls shim_thread_start
 * before its requests and shim_thread_stop after them. shim_run, and all callbacks that it makes, stay on that thread.
 *
 * Memory: a struct is owned by the side that fills it. {pointer, length} views are valid for the duration of the call
 * that they are passed to; views that a callback returns are valid until the next callback of the same request. Nothing
 * is NUL-terminated. */
#ifndef SVC_SHIM_H
#define SVC_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A view of bytes. `bytes` may be NULL if `length` is 0. */
typedef struct shim_view {
    const char *bytes;
    size_t length;
} shim_view;

/* A name and a value, filled by the host; `bytes` is never NULL. */
typedef struct shim_pair {
    shim_view name;
    shim_view value;
} shim_pair;

/* A list of pairs, filled by a callback; the host owns the storage. */
typedef struct shim_pairs {
    const shim_pair *pairs;
    size_t count;
} shim_pairs;

/* The source of a log record. Filled by C. */
typedef enum shim_log_source {
    /* An error of the engine; `error_type` is PHP's E_ constant. */
    SHIM_LOG_ERROR = 0,
    /* error_log() and other messages without a type; only `syslog_priority` is known. */
    SHIM_LOG_MESSAGE = 1,
    /* frankenphp_log(): sets `script_level` and, if the script gave one, `context`. */
    SHIM_LOG_SCRIPT = 2,
} shim_log_source;

/* The severity that a script gives its record. */
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
    /* The script's current span; 0 if it has begun none. */
    uint64_t span;
} shim_log;

/* Status and header fields of a response. Filled by C. */
typedef struct shim_head {
    int status;
    /* The whole line set with header("HTTP/1.1 404 ..."), or empty. */
    shim_view status_line;
    /* Each in the form `Name: value`, as PHP keeps them. */
    const shim_view *lines;
    size_t count;
} shim_head;

/* The stored responses that a script removes from the response cache. */
typedef enum shim_purge {
    SHIM_PURGE_ALL = 0,
    /* Those with one of these tags. */
    SHIM_PURGE_TAGS,
    /* Those to this URL. */
    SHIM_PURGE_URL,
} shim_purge;

/* The input and output of a request. */
typedef struct shim_io_callbacks {
    /* Writes output. Returns false if the client has disconnected. */
    bool (*write)(void *request, shim_view output);
    /* Sends the output so far to the client now. Returns false if the client has disconnected. */
    bool (*flush)(void *request);
    /* Sends status and header fields; called once, before the first output. */
    void (*send_head)(void *request, const shim_head *head);
    /* Sends an informational response (1xx). */
    void (*send_interim)(void *request, const shim_head *head);
    /* Ends the response, although the script continues. */
    void (*finish)(void *request);
    /* Ends the response because max_execution_time has ended the script; shutdown functions still run. */
    void (*time_limit)(void *request);
    /* Called when an error has ended the script, whose output so far may still follow. `is_lost`: it ends the worker, too. */
    void (*failed)(void *request, bool is_lost);
    /* Reports an uncaught exception or a fatal error: its class, its message, and its trace, which begins with the place.
     * Called if the request is recorded, and for each request with the option `reports_failures`. */
    void (*fail)(void *request, shim_view class_name, shim_view message, shim_view trace, bool is_exception);
    /* Whether the client has disconnected. */
    bool (*is_gone)(void *request);
    /* Whether output would block the thread until the client has read more. */
    bool (*is_full)(void *request);
    /* Copies up to `size` bytes of the body to `buffer`; returns the number of bytes, 0 at the end of the body. */
    size_t (*read_body)(void *request, char *buffer, size_t size);
    /* Copies up to `size` bytes of the body, starting at `offset`; does not move the position of read_body. */
    size_t (*read_body_at)(void *request, char *buffer, size_t size, uint64_t offset);
    /* Fills in the variables of $_SERVER; their names consist of letters, digits and underscores. */
    void (*variables)(void *request, shim_pairs *out);
    /* Fills in the header fields of the request, as received. */
    void (*fields)(void *request, shim_pairs *out);
    /* Fills in path and query, as received. */
    void (*target)(void *request, shim_view *out);
    /* Fills in the address of the client. */
    void (*client)(void *request, shim_view *out);
    /* Fills in the ID of the request in logs. */
    void (*request_id)(void *request, shim_view *out);
    /* Removes stored responses; returns their number, or -1 if the name is not a URL that the request can refer to. */
    int64_t (*purge)(void *request, shim_purge what, const shim_view *names, size_t count);
    /* Writes one log record; `request` is NULL outside requests. */
    void (*log)(void *request, const shim_log *record);
    /* Counts an error of the engine, whether or not it is displayed, logged or handled by the script. On any PHP thread. */
    void (*error)(const shim_log *record);
} shim_io_callbacks;

/* Hooked calls, in which a request can wait without blocking its thread. */
typedef enum shim_hook {
    SHIM_HOOK_SLEEP = 0,
    SHIM_HOOK_NET,
    SHIM_HOOK_DNS,
    SHIM_HOOK_PROCESS,
} shim_hook;

/* The reason why a hooked call blocks its thread nevertheless. */
typedef enum shim_obstacle {
    SHIM_NO_OBSTACLE = 0,
    /* The engine does not allow a switch. */
    SHIM_OBSTACLE_SWITCH,
    /* Code is being loaded, or a constant evaluated. */
    SHIM_OBSTACLE_LOADING,
    /* The cycle collector runs. */
    SHIM_OBSTACLE_COLLECTING,
    /* An output handler runs. */
    SHIM_OBSTACLE_OUTPUT,
    /* A function that marks values against recursion is running. */
    SHIM_OBSTACLE_MARKS,
    /* A resource that the wait needs is unavailable. */
    SHIM_OBSTACLE_MEMORY,
    /* All permitted helper threads are busy. */
    SHIM_OBSTACLE_HELPERS,
} shim_obstacle;

/* Worker mode: the serving loop, and the life of each request. */
typedef struct shim_worker_callbacks {
    /* Serves requests: the boot script of the worker `boot` is ready for them. The host starts them with
     * shim_request_start, resumes them with shim_fiber_resume, sleeps with shim_wait, and returns once the worker ends
     * and no request is left. */
    void (*serve)(void *boot);
    /* Serves one request at a time: waits for a request and runs it with shim_request_here. Returns false if the worker
     * ends. */
    bool (*serve_one)(void *boot);
    /* The response of the request is complete. The remains of the request are freed now, which may run script code and
     * may wait: `parks` and `resumes` may follow. In classic mode, shim_run reports the outcome by returning; this is
     * called first if the cleanup will take long. */
    void (*ended)(void *request, int outcome);
    /* The request is completely freed. `request` belongs to the host again, and C no longer uses it. */
    void (*freed)(void *request);
    /* The request begins to wait without blocking its thread (`parks`), and continues (`resumes`). */
    void (*parks)(void *request);
    void (*resumes)(void *request);
    /* A hooked call of the request waits and blocks its thread. */
    void (*blocks)(void *request, shim_hook hook, shim_obstacle obstacle);
    /* The request has waited for a connection that another request of its thread owned. */
    void (*waited_for_connection)(void *request, uint64_t microseconds);
} shim_worker_callbacks;

/* The two ends of a completion: a one-shot event that one thread reports, and that a request of another thread may wait
 * for. Both ends belong to the host, and each is released once. Either may be released first, and both may outlive the
 * thread that created them. */
typedef struct shim_completion shim_completion;
typedef struct shim_completer shim_completer;

/* Requests that wait for completions have numbers. Those whose numbers are equal modulo this are notified together. */
#define SHIM_WAITER_GROUPS 256

/* Completions. All writes of a thread before it completes one are visible to a thread that finds it complete. */
typedef struct shim_completion_callbacks {
    /* Creates a completion that requests of the calling thread can wait for. Returns false if its requests cannot wait. */
    bool (*make)(shim_completion **completion, shim_completer **completer);
    /* Completes it, or reports that it will never complete. Releases the completer. On any thread; wait-free, except
     * for one write to the descriptor that wakes a thread. */
    void (*complete)(shim_completer *completer);
    /* The other callbacks are called on the thread that created the completion.
     *
     * Makes the waiter with this number wait for it; once it is complete, shim_waiters_notify is called with the group
     * of that number. It has one waiter at a time. Returns false if it is already complete. */
    bool (*wait)(shim_completion *completion, uint32_t waiter);
    /* Calls shim_waiters_notify for the waiters whose completions are complete. */
    void (*poll)(void);
    /* Ends the wait. The host may still notify the waiter once. */
    void (*stop_waiting)(shim_completion *completion);
    bool (*is_complete)(shim_completion *completion);
    /* Releases the completion. */
    void (*drop)(shim_completion *completion);
} shim_completion_callbacks;

/* Helper threads, which run blocking calls while requests wait for a completion. */
typedef struct shim_helper_callbacks {
    /* Calls `job` with this data exactly once: on a helper thread and with `runs`, or without `runs` to cancel it:
     * before this returns, because the queue is full; or later, because the server ends. On any thread. A thread that
     * is started for it inherits the attributes that threads inherit from the calling one. */
    void (*run)(void (*job)(void *data, bool runs), void *data);
} shim_helper_callbacks;

/* The type of an attribute's value, or of each value in its list. */
typedef enum shim_scalar_type {
    SHIM_SCALAR_BOOL = 0,
    SHIM_SCALAR_INT,
    SHIM_SCALAR_FLOAT,
    SHIM_SCALAR_TEXT,
} shim_scalar_type;

/* A value; its type selects the member. Filled by C. */
typedef struct shim_scalar {
    /* An integer, or a boolean as 0 or 1. */
    int64_t integer;
    double number;
    shim_view text;
} shim_scalar;

/* An attribute of a span, set by a script. Filled by C. */
typedef struct shim_attribute {
    shim_view name;
    shim_scalar_type type;
    bool is_list;
    /* One value, or the values of the list. */
    const shim_scalar *values;
    size_t count;
} shim_attribute;

typedef enum shim_span_kind {
    SHIM_SPAN_INTERNAL = 0,
    SHIM_SPAN_SERVER,
    SHIM_SPAN_CLIENT,
    SHIM_SPAN_PRODUCER,
    SHIM_SPAN_CONSUMER,
} shim_span_kind;

typedef enum shim_span_status {
    SHIM_SPAN_UNSET = 0,
    SHIM_SPAN_OK,
    SHIM_SPAN_ERROR,
} shim_span_status;

/* Spans: recorded parts of a request. The host keeps them, and numbers them; a number is never reused. Calls for a span
 * that has ended, or that belongs to another request, have no effect. */
typedef struct shim_span_callbacks {
    /* Returns the request's own span; 0 if the request is not recorded. */
    uint64_t (*own)(void *request);
    /* Begins a span below `parent`, or below the request's own if that is 0. Returns its number; 0 if it is not recorded. */
    uint64_t (*begin)(void *request, uint64_t parent, shim_view name, shim_span_kind kind);
    void (*set_attribute)(void *request, uint64_t span, const shim_attribute *attribute);
    void (*add_event)(void *request, uint64_t span, shim_view name, const shim_attribute *attributes, size_t count);
    void (*set_status)(void *request, uint64_t span, shim_span_status status, shim_view description);
    /* Ends the span, complete or cut short (`is_cut`); the host ends the remaining spans when the request has ended. */
    void (*end)(void *request, uint64_t span, bool is_cut);
    /* Fills in the `traceparent` to propagate: that of the span, or of the request if that is 0. Leaves `out`, which is
     * empty, as it is without a trace. */
    void (*traceparent)(void *request, uint64_t span, shim_view *out);
    /* Fills in the `tracestate` of the request's trace, within the limits of W3C Trace Context. Empty if there is none. */
    void (*tracestate)(void *request, shim_view *out);
} shim_span_callbacks;

typedef enum shim_client_kind {
    SHIM_CLIENT_SQL = 0,
    /* A store with commands (Redis, Memcached). */
    SHIM_CLIENT_STORE,
    SHIM_CLIENT_HTTP,
} shim_client_kind;

/* A call of a database, of a store, or over HTTP. Filled by C; unknown members are empty, or 0. */
typedef struct shim_client_call {
    shim_client_kind kind;
    /* The database, as named by PHP's extensions. */
    shim_view system;
    /* The command; empty if the text contains it. */
    shim_view operation;
    /* The query, or the URL. */
    shim_view text;
    /* Whether the text has placeholders for values. */
    bool is_prepared;
    /* Whether the server does not treat a backslash in a value as it does by default. */
    bool has_other_backslash;
    /* PDO's data source without the name of its driver, or libpq's parameters. */
    shim_view source;
    /* The server, or its socket, its port, and the database there, unless the source contains them. */
    shim_view host;
    uint16_t port;
    shim_view database;
} shim_client_call;

/* The end of such a call. Filled by C. */
typedef struct shim_client_end {
    shim_client_kind kind;
    bool failed;
    /* Whether the script has abandoned the call. */
    bool is_cut;
    /* The error: a code of the client, or the class of an exception. */
    shim_view error;
    /* The code in the database's answer. */
    shim_view code;
    /* The status of a response, the method of its request, and their version of HTTP: 10, 11, 20 or 30. */
    uint16_t status;
    shim_view method;
    uint16_t version;
    /* The threshold of slow queries in milliseconds. */
    uint32_t slow_ms;
} shim_client_end;

/* Spans of such calls, for the plugin `apm`. */
typedef struct shim_client_callbacks {
    /* Describes the call of a span that has begun. A later description replaces an earlier one. */
    void (*describe)(void *request, uint64_t span, const shim_client_call *call);
    /* Ends the span. */
    void (*finish)(void *request, uint64_t span, const shim_client_end *end);
    /* Discards the span, which is not recorded: there was no call. */
    void (*discard)(void *request, uint64_t span);
} shim_client_callbacks;

/* Restarts of OPcache. */
typedef struct shim_restart_callbacks {
    /* OPcache is about to restart: returns whether the calling thread is the only one inside a request; other threads
     * are then kept out until shim_run has called `done`. */
    bool (*may_begin)(void);
    void (*done)(void);
    /* OPcache will restart, by its own decision or on request. On any PHP thread, which may hold OPcache's lock. */
    void (*wanted)(void);
    /* The worker of the calling thread has started up; it uses OPcache's memory, or does not, for its whole life. */
    void (*worker_started)(bool uses_cache);
} shim_restart_callbacks;

/* A block of bytes that one thread packs and another unpacks: a task with its arguments, or its answer. */
typedef struct shim_payload shim_payload;

/* The requester's handle of a task. It belongs to the host, and each handle is released once. */
typedef struct shim_task shim_task;

/* Several tasks that a request waits for together; belongs to the host, and is released once. */
typedef struct shim_task_watch shim_task_watch;

/* The result of offering a task. */
typedef enum shim_dispatched {
    SHIM_TASK_DISPATCHED = 0,
    /* There are no threads for tasks. */
    SHIM_TASK_OFF,
    /* The queue of tasks is full. */
    SHIM_TASK_QUEUE_FULL,
    /* The limit of waiting and running tasks together is reached. */
    SHIM_TASK_CAP_REACHED,
    /* No thread for tasks has booted. */
    SHIM_TASK_NO_THREAD,
    /* The server is shutting down. */
    SHIM_TASK_CLOSED,
} shim_dispatched;

/* The state of a task. */
typedef enum shim_task_state {
    SHIM_TASK_OPEN = 0,
    /* The answer is its result. */
    SHIM_TASK_COMPLETED,
    /* The answer is its exception. */
    SHIM_TASK_FAILED,
    /* It has failed without an answer; the host reports the reason. */
    SHIM_TASK_LOST,
    SHIM_TASK_CANCELLED,
} shim_task_state;

/* The condition that ends a watch. */
typedef enum shim_watch_mode {
    /* All tasks have completed, or one has not. */
    SHIM_WATCH_ALL = 0,
    /* One task has completed, or none has. */
    SHIM_WATCH_ANY,
    /* One task is settled. */
    SHIM_WATCH_RACE,
} shim_watch_mode;

/* Tasks: closures that run on separate threads. The functions that take a `task` may be called on any thread. */
typedef struct shim_task_callbacks {
    /* Returns the longest transfer in bytes; 0 if there are no threads for tasks. */
    uint64_t (*bytes_max)(void);
    /* Offers a task, on behalf of a request, which may be NULL, and its current span. The host takes the payload in any
     * case. With `pins_code`, OPcache must not restart before the task is freed or calls leave_cache. Fills in `task`
     * and `id`, or the bound that was reached. */
    shim_dispatched (*dispatch)(void *request, uint64_t span, shim_payload *input, bool pins_code, shim_task **task,
                                uint64_t *id, uint64_t *bound);
    /* Returns another handle of the same task. */
    shim_task *(*share)(shim_task *task);
    /* Releases a handle; the task itself continues. */
    void (*drop)(shim_task *task);
    /* Returns the state of the task, which no longer changes once it is not open. Fills in the answer, or the reason of
     * the loss; both are valid until the handle is released. */
    shim_task_state (*state)(shim_task *task, const shim_payload **answer, shim_view *why);
    /* Cancels the task. Returns whether it will not complete: false if it was settled before. */
    bool (*cancel)(shim_task *task);
    /* Discards the future answer; a failure is logged. */
    void (*detach)(shim_task *task);
    /* Whether the end of the request concerns the task: it is open and not detached, or stranded and still on its thread. */
    bool (*is_owned)(shim_task *task);
    /* Counts the task as stranded, if it has begun and is not settled. */
    void (*strand)(shim_task *task);
    /* Creates a completion that completes once the watch is over, on the calling thread. NULL if its requests cannot
     * wait. */
    shim_task_watch *(*watch)(shim_task *const *tasks, size_t count, shim_watch_mode mode, shim_completion **completion);
    /* Creates a watch that is over once the stranded tasks among them have left their threads; NULL if there are none. */
    shim_task_watch *(*watch_stranded)(shim_task *const *tasks, size_t count, shim_completion **completion);
    /* Returns the index of the task that ended the watch; the number of tasks if none did. */
    size_t (*winner)(shim_task_watch *watch);
    void (*unwatch)(shim_task_watch *watch);
    /* The following are for the running side: `request` is a task of this thread.
     *
     * Returns the dispatched payload; valid until the request is completely freed. */
    const shim_payload *(*input)(void *request);
    /* The payload no longer points into OPcache's memory, which may restart as far as this task is concerned. */
    void (*leave_cache)(void *request);
    /* Settles the task, which has returned (`thrown` is NULL), or thrown; `thrown` then describes the exception for a
     * log. The host takes the payload. */
    void (*settle)(void *request, const shim_view *thrown, shim_payload *answer);
    bool (*is_cancelled)(void *request);
    /* Whether the request runs the task. */
    bool (*runs_task)(void *request, shim_task *task);
} shim_task_callbacks;

/* The callbacks. Filled by the host, valid for the life of the process; none is NULL. `request` is the host's pointer that
 * was passed to shim_run. In a forked child, which has no host, output is accepted and discarded,
 * nothing can be read, and predicates return false. */
typedef struct shim_callbacks {
    /* The host's sizeof(shim_callbacks). */
    size_t size;
    shim_io_callbacks io;
    shim_worker_callbacks worker;
    shim_completion_callbacks completion;
    shim_helper_callbacks helper;
    shim_span_callbacks span;
    shim_client_callbacks client;
    shim_restart_callbacks restart;
    shim_task_callbacks task;
} shim_callbacks;

/* The options for starting PHP. Filled by the host; only read during shim_startup, except for `callbacks`. */
typedef struct shim_options {
    const shim_callbacks *callbacks;
    /* Values that php.ini may override. */
    const shim_pair *ini_defaults;
    size_t ini_defaults_count;
    /* Lines in php.ini's syntax; they override php.ini. */
    shim_view ini_overrides;
    /* Environment variables that are set while PHP starts, unless the process has them. */
    const shim_pair *environment;
    size_t environment_count;
    /* The path of the command-line PHP of the same build, for PHP_BINARY; empty if there is none. */
    shim_view command_line;
    /* Whether $_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST and $_SERVER contain the request. */
    bool superglobals;
    /* Whether threads boot a script that serves many requests or tasks. */
    bool boots;
    /* The hooks in effect: bit `1 << shim_hook` for each. */
    uint32_t hooks;
    /* Whether requests may be recorded. */
    bool traces;
    /* Whether `fail` is called for each request, recorded or not. */
    bool reports_failures;
    /* Whether calls of databases, stores and HTTP servers are observed, whether those over HTTP propagate the trace,
     * and the threshold of slow queries. */
    bool observes_clients;
    bool propagates;
    uint32_t slow_query_ms;
} shim_options;

/* Facts about the linked PHP. Filled by C; views of static storage. */
typedef struct shim_facts {
    shim_view version;
    bool zts;
    bool debug;
    bool zend_signals;
    bool max_execution_timers;
    bool opcache_enabled;
    /* Whether the system gives each thread its own file mode mask; otherwise, umask() affects the whole process. */
    bool umask_per_thread;
    shim_view ini_path;
} shim_facts;

/* One request. Filled by the host, valid until shim_run returns. */
typedef struct shim_request {
    /* The host's number for it, unique among the requests of its thread; 0 if there is no client. */
    uint64_t number;
    shim_view method;
    /* The script's name and the rest of the path, decoded, without the query. Extensions that route by it
     * (Phar::webPhar) expect Apache's interpretation, which differs from $_SERVER['REQUEST_URI']. */
    shim_view uri;
    /* Without the question mark. */
    shim_view query;
    shim_view content_type;
    bool has_content_type;
    /* All Cookie fields, joined. */
    shim_view cookies;
    bool has_cookies;
    shim_view authorization;
    /* The script's absolute path, as in SCRIPT_FILENAME. */
    shim_view script;
    /* The file behind that path, without links. PHP runs this path: given the link, OPcache would continue to run its
     * former target. */
    shim_view script_file;
    /* The folder of `script` without links, if that path contains any. The script runs there. PHP's cache of resolved
     * paths may still contain former targets of the links. */
    shim_view folder;
    int64_t content_length;
    /* 1000 for HTTP/1.0, 1001 for HTTP/1.1, 2000 for HTTP/2. */
    int protocol;
    /* Unix time of the request's arrival, in seconds. */
    double time;
} shim_request;

/* The outcome of a script. */
typedef enum shim_outcome {
    /* It ran to its end, or called exit(). */
    SHIM_COMPLETE = 0,
    /* A fatal error or an uncaught exception. */
    SHIM_FATAL = 1,
    /* max_execution_time. */
    SHIM_TIME_LIMIT = 2,
    /* The client has disconnected; output was refused. */
    SHIM_ABORTED = 3,
    /* Worker mode: a fatal error after which the worker ends, once its other requests have ended. */
    SHIM_LOST = 4,
    /* Classic mode: the script's file is missing, and no code has run. */
    SHIM_NO_SCRIPT = 5,
} shim_outcome;

/* Starts PHP. Returns NULL, or a static string with the error. */
const char *shim_startup(const shim_options *options);

/* Fills `facts`. Call after shim_startup. */
void shim_facts_read(shim_facts *facts);

/* The further ini files that PHP has read, separated by commas and line feeds; empty if there are none. Call after
 * shim_startup. */
shim_view shim_ini_scanned(void);

/* The directories in which PHP looks for php.ini, and for further ini files, unless its environment names other places:
 * two directories, or empty views. */
void shim_ini_directories(shim_view *first, shim_view *further);

/* Fills in the name and the version of an extension; false after the last one. Call after shim_startup. */
bool shim_extension_read(size_t index, shim_view *name, shim_view *version);

/* Whether PHP or an extension has a directive with this name. Call after shim_startup. */
bool shim_ini_exists(shim_view name);

/* Returns the path of a library whose calls should wait in a fiber and do not reach the hooks; empty after the last
 * one. Call after shim_startup. */
shim_view shim_library_without_hooks(size_t index);

/* Shuts PHP down. Call after all other threads have called shim_thread_stop. */
void shim_shutdown(void);
/* Makes requests and workers that start from now on run the code on disk: empties OPcache, and makes threads forget
 * resolved paths. `is_saved`: files were saved, and have the time of that; OPcache then keeps the others, if it is set to
 * find these out. On the thread that called shim_startup. */
void shim_code_renew(bool is_saved);

/* Prepares the calling thread for shim_run. */
void shim_thread_start(void);

/* Frees the remains of shim_thread_start and the thread's requests. */
void shim_thread_stop(void);

/* Runs one request from startup to shutdown. */
shim_outcome shim_run(const shim_request *request, void *host);
/* Whether a request of this thread has not been shut down completely: the thread runs no more requests, and is replaced. */
bool shim_thread_is_tainted(void);

/* Finds out whether a thread executes instructions of a script. Owned by C, one per thread; created on the thread after
 * shim_thread_start, and stopped there before shim_thread_stop, when no other thread uses it. NULL if out of memory. */
typedef struct shim_interrupter shim_interrupter;
shim_interrupter *shim_interrupter_start(void);
void shim_interrupter_stop(shim_interrupter *interrupter);

/* Asks the thread; clears earlier answers. On any thread. */
void shim_interrupter_ask(shim_interrupter *interrupter);

/* Whether the last question has been answered. A thread that executes instructions answers at once; one that is inside
 * a system call or an internal function does not. */
bool shim_interrupter_is_answered(const shim_interrupter *interrupter);

/* Interrupts the thread after one of its tasks has been cancelled, so that a task that executes instructions finds out.
 * On any thread. */
void shim_interrupter_notify(shim_interrupter *interrupter);

/* Call about once a second, from one other thread at a time: the caller then watches the time limit of the thread's
 * script, and the kernel only does so when the limit is near. Without such calls, limits are passed to the kernel at
 * once. Returns the number of the request whose limit has expired while its thread is inside a call and does not react;
 * 0 if there is none. */
uint64_t shim_interrupter_check(shim_interrupter *interrupter);

/* ---- worker mode ---- */

/* A worker, as its script sees it. Filled by the host. */
typedef struct shim_worker_info {
    int64_t id;
    /* Unix time, in seconds. */
    double started;
} shim_worker_info;

/* Runs the script of a worker, from startup to shutdown; the script calls Svc\Worker::serve() or
 * frankenphp_handle_request(). Until it returns, the functions below may be called inside `serve` and `serve_one`, on
 * the same thread. */
shim_outcome shim_boot(const shim_request *request, void *host, const shim_worker_info *info);

/* Runs the script of a thread for tasks, if `request` names one, and then `serve`. */
shim_outcome shim_boot_for_tasks(const shim_request *request, void *host, const shim_worker_info *info);

/* Frees a payload. On any thread. */
void shim_payload_free(shim_payload *payload);

/* Call after tasks of this thread may have been cancelled: wakes the waiting ones. Returns how many. */
size_t shim_tasks_wake_cancelled(void);

/* Makes the worker take no more requests, for the reason that Svc\Worker::exitReason() returns. At most 15 bytes of
 * `reason` are kept. */
void shim_worker_leaves(shim_view reason);

/* The progress of a request. */
typedef enum shim_progress {
    /* There was no request to resume. */
    SHIM_NOTHING = 0,
    /* It waits; its thread is free. */
    SHIM_WAITS = 1,
    /* It has ended and is completely freed; the host has been notified. */
    SHIM_ENDED = 2,
} shim_progress;

/* Starts a request on a fiber and runs it until it waits or ends. If there is no memory for the fiber, the request ends
 * at once. `request` is read before this returns. */
shim_progress shim_request_start(const shim_request *request, void *host);

/* Runs a request to its end on the thread's own stack. */
void shim_request_here(const shim_request *request, void *host);

/* Resumes the request that has been ready for the longest time. */
shim_progress shim_fiber_resume(void);

/* Finds out which requests have become ready, without sleeping. Returns the number of ready requests. */
size_t shim_poll(void);

/* Does the same, but if none is ready, sleeps until one is, until the worker's descriptor is written to, or for
 * `longest` nanoseconds; a negative `longest` means indefinitely. */
size_t shim_wait(int64_t longest);

/* A completion of a waiter in this group, current or former, may be complete. Returns how many requests can continue.
 * Call after shim_poll and shim_wait, which consume the thread's wake-ups. */
size_t shim_waiters_notify(uint32_t group);

/* Returns a new descriptor of an eventfd(2); writing to it wakes the calling thread's shim_wait. The caller closes it.
 * -1 if the system has no descriptor left. */
int shim_wake_descriptor(void);

/* Facts about the worker of the calling thread. Filled by C. */
typedef struct shim_worker_facts {
    /* The size of PHP's heap. */
    size_t heap_bytes;
    /* A request has left memory behind that only a new boot frees, or a connection has been closed that only a new boot
     * opens. */
    bool tainted;
    /* Svc\Worker::scheduleExit() has been called. */
    bool exit_scheduled;
    /* There is enough possible garbage that shim_worker_collect_garbage() should be called while no request runs. */
    bool collection_wanted;
} shim_worker_facts;
void shim_worker_facts_read(shim_worker_facts *facts);

/* Collects garbage outside any request: destructors run, and their output is discarded. Call between requests. */
void shim_worker_collect_garbage(void);
/* Returns in how many nanoseconds an idle worker should call shim_worker_collect_garbage(); negative if there is no reason
 * to. */
int64_t shim_worker_idle_wait(void);

/* Returns the name of an extension whose per-thread state has not been classified as belonging to a request or to the
 * thread; empty if there is none. For tests. */
shim_view shim_state_unclassified(void);

/* An extension that is known to keep state for a request, but in a different layout in this PHP: that state stays with
 * the thread. Filled by C. */
typedef struct shim_mismatch {
    shim_view extension;
    /* Whether the headers that the shim was compiled with differ as well: they belong to another PHP. */
    bool has_header;
} shim_mismatch;
/* Fills in the entry with this index; returns false after the last one. */
bool shim_state_mismatch(size_t index, shim_mismatch *mismatch);

/* A part of an extension's struct that travels with requests. Filled by C, for tests. */
typedef struct shim_state_part {
    shim_view module;
    size_t struct_size;
    size_t offset;
    size_t size;
} shim_state_part;
/* Fills in the entry with this index; returns false after the last one. */
bool shim_state_range(size_t index, shim_state_part *out);

/* Blocks the signals that any process may send, including those without a defined meaning, in the calling thread and
 * all threads that it starts, and ignores SIGPIPE and SIGXFSZ. */
void shim_signals_block(void);

/* Waits for one of the blocked signals. Returns its number, and fills in the process that has sent it, or 0 if there is
 * none. Returns 0 after `milliseconds`, unless those are 0, and when a child has ended. */
int shim_signals_wait(uint32_t milliseconds, int *sender);

/* Returns a descriptor that is readable while a SIGINT, SIGQUIT or SIGTERM is pending; -1 if the system has none. The caller
 * closes it. */
int shim_signals_stop_descriptor(void);

/* OPcache's report of its memory. Hits and misses count from its start or last restart. Filled by C. */
typedef struct shim_opcache {
    uint64_t used_bytes;
    uint64_t free_bytes;
    uint64_t wasted_bytes;
    uint64_t scripts;
    uint64_t hits;
    uint64_t misses;
    bool is_full; /* it takes no further scripts before a restart */
} shim_opcache;
/* Call on the thread that started PHP. Returns false if OPcache is off, or keeps files only. */
bool shim_opcache_read(shim_opcache *out);

#endif
