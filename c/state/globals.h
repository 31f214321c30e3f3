/* The structs of the engine's layers that travel as a whole. */
#ifndef SVC_SHIM_GLOBALS_H
#define SVC_SHIM_GLOBALS_H

#include "compat.h"
#include "state/streams.h"

#include <sys/stat.h>
#include <zend_virtual_cwd.h>

typedef struct shim_globals_state {
    sapi_globals_struct sapi;
    zend_output_globals output;
    php_core_globals core;
    php_basic_globals basic;
    shim_streams_state streams;
    /* Its buffer is Zend's, and travels with it. */
    cwd_state directory;
    /* The request's own, if it has changed it. */
    mode_t umask;
} shim_globals_state;

void shim_globals_capture(void);
void shim_globals_release(void);
void shim_globals_begin(void);
void shim_globals_suspend(shim_globals_state *state);
void shim_globals_resume(shim_globals_state *state);
/* Ends the body, and every php://input that reads it. PHP leaves that to the end of all resources, which is the end of the
 * worker. Filters may run a script's code. */
void shim_globals_end_body(void);
/* Runs no script's code. What the request has registered with the streams layer is kept for shim_streams_give() if
 * `keeps_streams`. */
void shim_globals_end(bool keeps_streams);
/* Puts the baseline snapshot in place, whatever is there. */
void shim_globals_reset(void);
/* Whether there is anything left that may hold objects with destructors; and frees it while the rest of the request is
 * intact, because destructors may create more. */
bool shim_globals_hold(void);
void shim_globals_drop(void);

#endif
