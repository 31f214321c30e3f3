/* The worker of this thread, as everybody may see it. */
#ifndef SVC_SHIM_OWN_WORKER_H
#define SVC_SHIM_OWN_WORKER_H

#include "context/context.h"
#include "shim.h"

typedef struct shim_worker {
    /* The host of the boot request; NULL: this thread is no worker. */
    void *host;
    shim_context *boot;
    /* The boot script has handed over: requests may begin. */
    bool serving;
    /* A request has ended by a jump: what it left behind is not freed before the boot request ends. */
    bool tainted;
    bool exit_scheduled;
    /* The script was told that it serves no more. */
    bool over;
    char exit_reason[16];
    shim_worker_card card;
    uint64_t requests;
    /* Those that have begun and not ended. */
    unsigned carried;
} shim_worker;
extern __thread shim_worker shim_own_worker;

#endif
