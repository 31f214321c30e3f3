/* The request that runs on this thread, if one does. */
#ifndef SVC_SHIM_CONTEXT_H
#define SVC_SHIM_CONTEXT_H

#include "compat.h"
#include "shim.h"

/* The request that runs on this thread, or NULL between requests. In classic mode it is owned by shim_run's frame, in
 * worker mode by its fiber. */
typedef struct shim_context {
    /* NULL once the reply has ended. */
    void *host;
    /* The same, until nothing of the request is left: its destructors have run. */
    void *owner;
    const shim_request *request;
    /* The host's name for it. */
    uint64_t number;
    /* When it arrived; Unix time. */
    double time;
    int64_t body_length;
    /* The resource of the stream behind php://input, when it was made with the request. */
    zend_resource *body;
    /* The response has been ended by svc_finish_request(); later output is dropped. */
    bool finished;
    /* The host said that nobody reads. */
    bool refused;
    /* zend_error_cb saw an error that ends scripts. */
    bool fatal;
    /* The execution timer fired. */
    volatile bool timed_out;
    /* It was left without the lock of its session: what it has of that is not to be written. */
    bool lost_session;
    /* Inside php_request_startup, where OPcache restarts. */
    bool starting;
    /* This thread holds the restart; see opcache/lock.c. */
    bool restarting;
    /* The script of a worker: it lives as long as the worker and serves no client itself. */
    bool is_boot;
    /* It has ended by exit(). */
    bool exited;
    /* A step of it has ended by a jump. */
    bool jumped;
    /* Svc\Request::current(), once it has been asked for. */
    zval object;
} shim_context;

extern __thread shim_context *shim_current;

/* The host of the current request; NULL when there is none, or it has its outcome already. */
static inline void *shim_party(void)
{
    return shim_current != NULL ? shim_current->host : NULL;
}

/* A request has forked this process off (process/children.c). */
extern bool shim_is_child;

#endif
