/* A worker that serves. */
#ifndef SVC_SHIM_WORKER_H
#define SVC_SHIM_WORKER_H

#include "compat.h"

/* The boot request is about to shut down: clears the state of the worker. */
void shim_worker_forget(void);

/* Serves tasks until the thread ends. Call after the script has ended. */
void shim_worker_serve_tasks(void);

/* The functions that scripts call to serve; see main/classes.c. */
ZEND_METHOD(Svc_Worker, serve);
PHP_FUNCTION(frankenphp_handle_request);

#endif
