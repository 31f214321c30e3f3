/* The superglobals of a request. */
#ifndef SVC_SHIM_SUPERGLOBALS_H
#define SVC_SHIM_SUPERGLOBALS_H

#include "compat.h"

enum { SHIM_SUPERGLOBALS = 7 };
typedef struct shim_superglobals_state {
    zval values[SHIM_SUPERGLOBALS];
    /* Undefined while there is no session. */
    zval session;
} shim_superglobals_state;

/* Leaves the superglobals empty for scripts, in both modes. Call once, while extensions start. */
void shim_superglobals_hide(void);
void shim_superglobals_capture(void);
void shim_superglobals_release(void);
void shim_superglobals_begin(void);
/* Returns false if the script has removed the arrays and there is no memory for new ones. */
bool shim_superglobals_prepare(void);
void shim_superglobals_suspend(shim_superglobals_state *state);
void shim_superglobals_resume(shim_superglobals_state *state);
void shim_superglobals_end(void);
/* Whether the name is that of a superglobal. Call while the worker serves. */
bool shim_is_superglobal(const zend_string *name);

#endif
