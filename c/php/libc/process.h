/* Environment, locale, signals and priority. */
#ifndef SVC_SHIM_PROCESS_H
#define SVC_SHIM_PROCESS_H

#include "php/libc/attributes.h"
#include "php/libc/own_signals.h"

/* `overlay` and `locale` are a list and an object that their own files define. */
typedef struct shim_process_state {
    void *overlay;
    void *locale;
    shim_own_signals_state signals;
    shim_attributes_state attributes;
} shim_process_state;

void shim_process_capture(void);
void shim_process_release(void);
void shim_process_suspend(shim_process_state *state);
void shim_process_resume(const shim_process_state *state);
/* For a request on the thread's own stack: call before PHP starts it, and when it has ended. */
void shim_process_begin(void);
void shim_process_end(void);

#endif
