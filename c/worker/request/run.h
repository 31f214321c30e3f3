/* One request of a worker. */
#ifndef SVC_SHIM_RUN_H
#define SVC_SHIM_RUN_H

#include "compat.h"
#include "worker/stack/fiber.h"

/* The handler of the requests of this thread's worker. */
typedef struct shim_request_handler {
    zend_fcall_info call;
    zend_fcall_info_cache cache;
} shim_request_handler;
extern __thread shim_request_handler shim_handler;
/* The function that tasks of this process run instead of a handler (async/task/running.c). */
extern void (*shim_run_task)(shim_fiber *fiber);
/* Runs the request from its beginning to its end. */
void shim_request_run(shim_fiber *fiber);

#endif
