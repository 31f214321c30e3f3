/* The state of extensions for a request. */
#ifndef SVC_SHIM_MODULES_H
#define SVC_SHIM_MODULES_H

#include "worker/state/part.h"

#include <stdbool.h>

void shim_modules_capture(void);
void shim_modules_release(void);
/* Adds references to the boot script's values, and then runs the extensions' own startup, which may run script code. */
void shim_modules_begin(int *begun);
void shim_modules_start(int *started);
/* Marks all extensions as started without starting them, so that they end what destructors between requests begin. */
void shim_modules_mark_started(int *started);
bool shim_modules_prepare(char **block);
/* Puts the baseline snapshot in place once more: handlers of directives may have written into it. */
void shim_modules_reset(void);
void shim_modules_suspend(char *block);
void shim_modules_resume(const char *block);
/* Ends the request in the extensions (sessions are written), and then frees the rest. Each may run script code: after a
 * bailout, the numbers tell how many extensions are left, and the next call continues with them. */
void shim_modules_end(int *started);
void shim_modules_clean(int *begun);

/* Registers the parts that belong to a stack (worker/engine/stacks.h). Call after PHP has started. */
void shim_modules_follow_stacks(void);
/* Whether the struct exists and has a known layout. */
bool shim_modules_hold(const shim_part *part);
/* Whether any part of the extension's state is known to belong to a request. */
bool shim_modules_travel(const char *name);

#endif
