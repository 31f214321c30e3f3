/* A worker, and its requests from their beginning to their end. */
#ifndef SVC_WORKER_REQUEST_H
#define SVC_WORKER_REQUEST_H

#include "compat.h"
#include "worker/engine/engine.h"
#include "worker/stack/stack.h"

/* ---- The end of a request (ending.c) ---- */

/* Runs a step of a request and reports its exceptions on behalf of the request. */
bool shim_step(const shim_checkpoint *here, void (*step)(shim_fiber *), shim_fiber *fiber);
/* The same for a function of the running request. */
bool shim_step_call(const shim_checkpoint *here, void (*function)(void));

void shim_request_finish(shim_fiber *fiber, const shim_checkpoint *here);

/* ---- The settings of an application that boots inside its first request (first_request_boot.c) ---- */

void shim_first_request_boot_expect(void);
void shim_first_request_boot_take(void);
void shim_first_request_boot_inherit(void);

/* ---- One request of a worker (run.c) ---- */

/* The handler of the requests of this thread's worker. */
typedef struct shim_request_handler {
    zend_fcall_info call;
    zend_fcall_info_cache cache;
} shim_request_handler;
extern __thread shim_request_handler shim_worker_handler;
/* The function that tasks of this process run instead of a handler (async/task/running.c). */
extern void (*shim_run_task)(shim_fiber *fiber);
/* Runs the request from its beginning to its end. */
void shim_request_run(shim_fiber *fiber);

/* ---- The functions that scripts call to wait (waiting.c) ---- */

ZEND_NAMED_FUNCTION(shim_sleep);
ZEND_NAMED_FUNCTION(shim_wait_readable);
ZEND_NAMED_FUNCTION(shim_wait_writable);

/* ---- A worker that serves (worker.c) ---- */

/* The functions that scripts call to serve (worker_class.c). */
ZEND_METHOD(Svc_Worker, serve);
PHP_FUNCTION(frankenphp_handle_request);

/* ---- Svc\Worker, and the functions that need worker mode (worker_class.c) ---- */

void shim_worker_declare(zend_module_entry *module);

/* ---- What worker mode adds to requests of classic mode (request_hooks.c) ---- */

extern const shim_request_hooks shim_worker_request_hooks;
/* Call after PHP has started. */
void shim_wait_hooks_install(void);

#endif
