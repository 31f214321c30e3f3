/* The request of the current thread, its host and its worker. */
#ifndef SVC_PHP_CONTEXT_H
#define SVC_PHP_CONTEXT_H

#include "compat.h"
#include "shim.h"

/* ---- The request that runs on the current thread, if any (context.c) ---- */

/* The tasks of a request. */
typedef struct shim_owned_tasks {
    shim_task **list;
    size_t count;
    size_t room;
    /* The number of tasks at which settled ones are released. */
    size_t sweep_at;
    /* Whether the request is ending: it dispatches no more tasks. */
    bool is_over;
} shim_owned_tasks;

/* The instances of a request (worker/connections/instances/own_instances.c). */
typedef struct shim_own_instance shim_own_instance;
typedef struct shim_own_instances {
    shim_own_instance *list;
    size_t count;
    size_t room;
    /* Whether the request is ending: it creates no more instances. */
    bool is_over;
} shim_own_instances;

/* The request that runs on the current thread, or NULL between requests. Owned by the frame of shim_script_run()
 * in classic mode and of boot scripts, and by its fiber in worker mode. */
typedef struct shim_context {
    /* NULL once the response has ended. */
    void *host;
    /* The same pointer, valid until the request is completely freed and its destructors have run. */
    void *owner;
    const shim_request *request;
    /* The number by which the host identifies the request. */
    uint64_t number;
    /* In worker mode, its serial number among the requests of its thread; 0 for a boot script. */
    uint64_t serial;
    /* Time of arrival, as Unix time. */
    double time;
    int64_t body_length;
    /* The resource of the stream behind php://input, if the stream was created with the request. */
    zend_resource *body;
    /* svc_finish_request() has ended the response; later output is discarded. */
    bool finished;
    /* Whether its script has ended, and the last code runs: shutdown functions, destructors, output callbacks. */
    bool is_in_last_code;
    /* The host reported that the client has disconnected. */
    bool client_gone;
    /* The script ends for that reason as soon as no library writes output. */
    bool aborts_later;
    /* zend_error_cb saw an error that ends the script. */
    bool fatal;
    /* The file of its script is missing, and no code has run (php/request/script.c). */
    bool lacks_script;
    /* The execution timer has fired. */
    volatile bool timed_out;
    /* The signal that the request has sent to itself, and that ends it (php/libc/own_signals.c); 0 if there is none. */
    volatile int ending_signal;
    /* A library has read a page of a mapped file that was truncated meanwhile (php/engine/lost_pages.c). */
    volatile bool has_lost_pages;
    /* The request ended without its session lock, so its session data must not be written. */
    bool lost_session;
    /* PHP is inside php_request_startup, where OPcache restarts. */
    bool starting;
    /* This thread performs the restart; see php/opcache/lock.c. */
    bool restarting;
    /* The boot script of a worker: it lives as long as the worker, and serves no client itself. */
    bool is_boot;
    /* The request has ended by exit(). */
    bool exited;
    /* One of the request's steps has ended by a bailout. */
    bool bailed_out;
    /* Whether it is a task; `is_cancelled` keeps the host's answer once the task is cancelled. */
    bool is_task;
    bool is_cancelled;
    /* The time at which the cancellation was noticed, on the monotonic clock. */
    int64_t cancelled_at;
    /* A wait in C code has been cut short, and the script has not got its exception yet. */
    bool owes_cancelled;
    /* It has started processes, and may not have waited for them (php/process/own_children.c). */
    bool has_children;
    /* The tasks that it has dispatched (async/task/owned_tasks.c). */
    shim_owned_tasks tasks;
    /* Its own instances of objects of Svc\per_request(). */
    shim_own_instances instances;
    /* The object returned by Svc\Request::current(); created on first use. */
    zval object;
} shim_context;

extern __thread shim_context *shim_current;

/* Returns the host of the current request; NULL if there is no request, or if its outcome has already been reported. */
static inline void *shim_request_host(void)
{
    return shim_current != NULL ? shim_current->host : NULL;
}

/* Call when an error ends the current request, or its script; `is_lost`: by a bailout that costs the worker. */
void shim_request_failed(bool is_lost);

/* Ends the response if the time limit has ended the script: the client does not wait for the rest of its code. */
void shim_answer_time_limit(shim_context *context);

/* Returns the outcome of the request, given its flags so far. */
shim_outcome shim_outcome_of(const shim_context *context);

/* Whether one request is replacing another: engine code that runs meanwhile reports no errors. */
extern __thread bool shim_in_switch;

/* Whether this process was forked by a request (php/process/children.c). */
extern bool shim_is_child;

/* Whether a request runs on this thread of the server. A child that it has forked is another process. */
static inline bool shim_is_in_request(void)
{
    return shim_current != NULL && !shim_is_child;
}

/* 0 if the script has begun no span. Each fiber has its own value (trace/span_object.c). */
extern __thread uint64_t shim_current_span;

typedef struct shim_worker {
    /* The host of the boot request; NULL if this thread is not a worker. */
    void *host;
    shim_context *boot;
    /* Whether the thread serves tasks. */
    bool is_for_tasks;
    /* The boot script has called serve(): requests may begin. */
    bool serving;
    /* Whether it serves all requests without returning to the script in between. */
    bool is_looping;
    /* Whether a request has ended by a bailout. Its remains are not freed until the boot request ends. */
    bool tainted;
    /* Whether a connection that the script refers to had to be closed, and does not open again. */
    bool has_lost_connection;
    bool exit_scheduled;
    /* Whether the script has learned that the worker serves no more requests. */
    bool is_ending;
    char exit_reason[16];
    shim_worker_info info;
    uint64_t requests;
    /* The number of requests that have begun and not ended. */
    unsigned in_flight;
} shim_worker;
extern __thread shim_worker shim_own_worker;

/* The strings of a request for PHP, which requires them to be NUL-terminated and outside the request's own memory. One
 * block, reused for each request. */
typedef struct shim_strings {
    char *bytes;
    size_t size;
} shim_strings;

/* The script and its working directory. */
typedef struct shim_files {
    const char *script;
    /* NULL: the directory of SG(request_info).path_translated. */
    const char *folder;
} shim_files;

/* Fills SG(request_info). Returns false if out of memory. */
bool shim_request_info_fill(shim_strings *strings, const shim_request *request, shim_files *files);

/* ---- What other features add to a request (hooks.c) ---- */

/* The events of a request at which the features act that build on php/. Each registers one table, whose NULL entries are
 * skipped. */
typedef struct shim_request_hooks {
    /* While extensions start, before OPcache preloads files: registers classes and functions for scripts. Returns false if
     * PHP must not start. */
    bool (*declare)(zend_module_entry *module);
    /* PHP is about to start a script on the thread's own stack. */
    void (*begin)(const shim_context *context);
    /* A bailout has ended a script on the thread's own stack; nothing else of its request has run since. */
    void (*recover)(void);
    /* An error ends the script. `is_exception` if it reports an exception that the script has not caught. */
    void (*fail)(const shim_log *error, bool is_exception);
    /* Shutdown functions and destructors have run, and extensions are about to end the request. */
    void (*end)(shim_context *context);
    /* All extensions have ended the request. */
    void (*ended)(void);
    /* In both modes, the request has ended: cancels what it has started, */
    void (*cancel)(shim_context *context);
    /* and waits for what cannot be stopped. The request owns nothing that this could wait for in turn. */
    void (*finish)(shim_context *context);
    /* The request will not be resumed: does the same without waiting. */
    void (*lose)(shim_context *context);
    /* The process was forked by a request, and has no host: all callbacks return false, 0, NULL or nothing. Replaces those
     * that have to do something else. */
    void (*fork)(shim_callbacks *host);
} shim_request_hooks;

#define SHIM_REQUEST_HOOKS(HOOK) \
    HOOK(declare) HOOK(begin) HOOK(recover) HOOK(fail) HOOK(end) HOOK(ended) HOOK(cancel) HOOK(finish) HOOK(lose) \
    HOOK(fork)

enum { SHIM_REQUEST_HOOKS_MAX = 4 };
/* The functions of all tables by hook, in the order of registration; NULL behind the last one. */
typedef struct shim_request_hook_lists {
#define HOOK(entry) __typeof__(((shim_request_hooks *)NULL)->entry) entry[SHIM_REQUEST_HOOKS_MAX + 1];
    SHIM_REQUEST_HOOKS(HOOK)
#undef HOOK
} shim_request_hook_lists;
extern shim_request_hook_lists shim_request_hooks_of;
/* Call before PHP starts. */
void shim_request_hooks_register(const shim_request_hooks *hooks);

#define SHIM_CALL_REQUEST_HOOKS(entry, ...) \
    for (size_t own_hook = 0; shim_request_hooks_of.entry[own_hook] != NULL; own_hook++) { \
        shim_request_hooks_of.entry[own_hook](__VA_ARGS__); \
    }

typedef enum shim_process_waited {
    /* It has ended, or the caller checks again. */
    SHIM_PROCESS_CHECK = 0,
    /* The request may no longer wait. */
    SHIM_PROCESS_GIVE_UP,
    /* The request cannot wait without blocking its thread. */
    SHIM_PROCESS_BLOCK,
} shim_process_waited;

/* Waits in code of classic mode during which worker mode runs other requests. All entries are NULL without it: the thread
 * blocks. */
typedef struct shim_wait_table {
    /* Pauses because the client reads too slowly; `pause` begins at 0. Returns false if the request has to block. */
    bool (*for_client)(int64_t *pause);
    /* flock(), and fcntl() with a command that waits for a lock; `call` is the function of libc. */
    int (*for_lock)(int descriptor, int operation);
    int (*for_record_lock)(int descriptor, int command, void *lock, int (*call)(int, int, ...));
    /* usleep() of a library, or of PHP. Returns false if the thread has to pause. */
    bool (*pause)(useconds_t duration, const void *caller);
    /* Whether the request can wait for a process on behalf of this code; NULL stands for svc's own. */
    bool (*can_wait_for_process)(const void *caller);
    /* Waits until the descriptor is readable; a negative one could not be opened. */
    shim_process_waited (*for_process)(int descriptor);
    /* Whether another request of the thread uses the stream, or its descriptor. */
    bool (*is_in_use)(php_stream *stream);
} shim_wait_table;
extern shim_wait_table shim_wait_hooks;

static inline bool shim_can_wait_for_process(const void *caller)
{
    return shim_wait_hooks.can_wait_for_process != NULL && shim_wait_hooks.can_wait_for_process(caller);
}

/* ---- The host that embeds PHP, and the calls to it (host.c) ---- */

extern shim_callbacks shim_host;
/* Installs the host's callbacks. Returns false if one is missing. */
bool shim_host_install(const shim_callbacks *callbacks);
/* Call in a forked child, which has no host except for its log. */
void shim_host_forget(void (*log)(void *request, const shim_log *record));

/* Makes room for one more element of a growing array: a struct with `list` (from malloc()), `count` and `room`. Evaluates
 * to false if out of memory. */
#define SHIM_RESERVE(array) \
    ((array).count < (array).room || __extension__({ \
         const __typeof__((array).room) shim_room = (array).room > 0 ? 2 * (array).room : 16; \
         void *const shim_larger = realloc((array).list, shim_room * sizeof(*(array).list)); \
         (array).list = shim_larger != NULL ? shim_larger : (array).list; \
         (array).room = shim_larger != NULL ? shim_room : (array).room; \
         shim_larger != NULL; \
     }))

/* The number of elements of an array. */
#define SHIM_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Whether the name is in the list, in upper or lower case. */
static inline bool shim_is_listed(const char *name, const char *const *list, size_t count)
{
    size_t i = 0;
    while (i < count && strcasecmp(name, list[i]) != 0) {
        i++;
    }
    return i < count;
}

#define SHIM_IS_LISTED(name, list) shim_is_listed(name, list, SHIM_COUNT(list))

static inline shim_view shim_view_of(const char *bytes, size_t length)
{
    return (shim_view){.bytes = bytes, .length = length};
}

/* NULL gives an empty view. */
static inline shim_view shim_view_of_cstr(const char *text)
{
    return shim_view_of(text, text != NULL ? strlen(text) : 0);
}

static inline shim_view shim_view_of_string(const zend_string *string)
{
    return shim_view_of(ZSTR_VAL(string), ZSTR_LEN(string));
}

#endif
