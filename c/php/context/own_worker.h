/* The worker of the current thread. */
#ifndef SVC_SHIM_OWN_WORKER_H
#define SVC_SHIM_OWN_WORKER_H

#include "php/context/context.h"
#include "shim.h"

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
    bool over;
    char exit_reason[16];
    shim_worker_info info;
    uint64_t requests;
    /* The number of requests that have begun and not ended. */
    unsigned carried;
} shim_worker;
extern __thread shim_worker shim_own_worker;

#endif
