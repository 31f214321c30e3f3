/* The request that runs on the current thread, if any. */
#ifndef SVC_SHIM_CONTEXT_H
#define SVC_SHIM_CONTEXT_H

#include "compat.h"
#include "shim.h"

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

/* The request that runs on the current thread, or NULL between requests. Owned by the frame of shim_run in classic
 * mode, and by its fiber in worker mode. */
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
    /* The host reported that the client has disconnected. */
    bool refused;
    /* zend_error_cb saw an error that ends the script. */
    bool fatal;
    /* The file of its script is missing, and no code has run (php/request/missing_script.c). */
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
    bool jumped;
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

/* Returns the outcome of the request, given its flags so far. */
shim_outcome shim_outcome_of(const shim_context *context);

/* Whether this process was forked by a request (php/process/children.c). */
extern bool shim_is_child;

#endif
