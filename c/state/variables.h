/* The global variables of a task. */
#ifndef SVC_SHIM_VARIABLES_H
#define SVC_SHIM_VARIABLES_H

#include "compat.h"

#include <stdbool.h>

typedef struct shim_variables_state {
    /* The request has variables of its own. */
    bool begun;
    /* While it is suspended. */
    HashTable own;
} shim_variables_state;

/* The request gets its own copy of the baseline's variables. May run out of memory. */
void shim_variables_begin(shim_variables_state *state);
void shim_variables_suspend(shim_variables_state *state);
void shim_variables_resume(shim_variables_state *state);
/* Whether there are variables besides the superglobals. */
bool shim_variables_hold(const shim_variables_state *state);
/* Frees them; may run scripts' code. */
void shim_variables_drop(const shim_variables_state *state);
/* The baseline's variables are in place again. */
void shim_variables_end(shim_variables_state *state);

#endif
