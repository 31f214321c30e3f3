/* The structs of the engine's layers that travel as a whole. */
#ifndef SVC_SHIM_GLOBALS_H
#define SVC_SHIM_GLOBALS_H

#include "compat.h"
#include "worker/state/streams.h"

#include <sys/stat.h>
#include <zend_virtual_cwd.h>

typedef struct shim_globals_state {
    sapi_globals_struct sapi;
    zend_output_globals output;
    php_core_globals core;
    php_basic_globals basic;
    shim_streams_state streams;
    /* Zend allocates its buffer, which moves with it. */
    cwd_state directory;
    /* The request's own mask, if it has changed it. */
    mode_t umask;
} shim_globals_state;

void shim_globals_capture(void);
void shim_globals_release(void);
void shim_globals_begin(void);
void shim_globals_suspend(shim_globals_state *state);
void shim_globals_resume(shim_globals_state *state);
/* Ends the body, and every php://input that reads it. PHP does that only when it ends all resources, at the end of the
 * worker. Filters may run script code. */
void shim_globals_end_body(void);
/* Runs no script code. Keeps the request's wrappers and filters for shim_streams_give() if `keeps_streams`. */
void shim_globals_end(bool keeps_streams);
/* Puts the baseline snapshot in place, whatever the current state. */
void shim_globals_reset(void);
/* Whether values remain that may hold objects with destructors; shim_globals_drop() frees them while the rest of the
 * request is intact, because destructors may create more. */
bool shim_globals_hold(void);
void shim_globals_drop(void);

#endif
