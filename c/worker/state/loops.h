/* The event loops of a request: static properties of the libraries that run them. */
#ifndef SVC_SHIM_LOOPS_H
#define SVC_SHIM_LOOPS_H

#include "compat.h"

typedef struct shim_loops_state {
    /* Whether the request has its own loops. Consecutive requests, as in frankenphp_handle_request(), share those of
     * their script. */
    bool is_own;
    /* The values while the request waits, in the order of the thread's properties. */
    zval *values;
    uint32_t count;
    uint32_t room;
} shim_loops_state;

bool shim_loops_prepare(shim_loops_state *state);
void shim_loops_suspend(shim_loops_state *state);
void shim_loops_resume(shim_loops_state *state);
/* Frees the request's values in the loops. May run script code, which may leave more. */
bool shim_loops_hold(const shim_loops_state *state);
void shim_loops_drop(const shim_loops_state *state);
/* Restores the declared values; remaining values are not freed. */
void shim_loops_reset(const shim_loops_state *state);
/* The thread serves no more requests, and its classes may be destroyed. */
void shim_loops_release(void);
void shim_loops_free(shim_loops_state *state);

#endif
