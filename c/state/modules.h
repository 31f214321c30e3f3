/* What extensions keep for a request. */
#ifndef SVC_SHIM_MODULES_H
#define SVC_SHIM_MODULES_H

#include "state/part.h"

#include <stdbool.h>

void shim_modules_capture(void);
void shim_modules_release(void);
/* Adds references to what the boot script owns, and then runs the extensions' own startup, which may run scripts'
 * code. */
void shim_modules_begin(int *begun);
void shim_modules_start(int *started);
bool shim_modules_prepare(char **block);
/* Puts the baseline snapshot in place once more, after directives' handlers have written where they should not. */
void shim_modules_reset(void);
void shim_modules_suspend(char *block);
void shim_modules_resume(const char *block);
/* Extensions end the request (sessions are written), and then the rest is freed. Each may run scripts' code: after a
 * bailout, the numbers say how many are left, and the next call continues with them. */
void shim_modules_end(int *started);
void shim_modules_clean(int *begun);

/* Registers the parts that belong to a stack (engine/stacks.h). After PHP has started. */
void shim_modules_follow_stacks(void);
/* Whether the struct exists and has a known layout. */
bool shim_modules_hold(const shim_part *part);
/* Whether any part of the extension's state is known to belong to a request. */
bool shim_modules_travel(const char *name);

#endif
