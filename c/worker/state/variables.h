/* The global variables of a task. */
#ifndef SVC_SHIM_VARIABLES_H
#define SVC_SHIM_VARIABLES_H

#include "compat.h"

#include <stdbool.h>

typedef struct shim_variables_state {
    /* Whether the request has its own variables. */
    bool begun;
    /* The variables while the request is suspended. */
    HashTable own;
} shim_variables_state;

/* Gives the request its own copy of the baseline's variables. May run out of memory. */
void shim_variables_begin(shim_variables_state *state);
void shim_variables_suspend(shim_variables_state *state);
void shim_variables_resume(shim_variables_state *state);
/* Whether there are variables besides the superglobals. */
bool shim_variables_hold(const shim_variables_state *state);
/* Frees the variables; may run script code. */
void shim_variables_drop(const shim_variables_state *state);
/* Puts the baseline's variables back in place. */
void shim_variables_end(shim_variables_state *state);

#endif
