/* What extensions keep for a request. */
#ifndef SVC_SHIM_MODULES_H
#define SVC_SHIM_MODULES_H

#include "state/part.h"

#include <stdbool.h>

void shim_modules_capture(void);
void shim_modules_release(void);
/* References to what the boot script owns, then the extensions' own start-up, which may run scripts' code. */
void shim_modules_begin(int *begun);
void shim_modules_start(int *started);
bool shim_modules_prepare(char **block);
/* Puts the baseline snapshot in place once more, after directives' handlers have written where they should not. */
void shim_modules_reset(void);
void shim_modules_suspend(char *block);
void shim_modules_resume(const char *block);
/* Extensions end the request (sessions are written), then what is left is freed. Each may run scripts' code: after a jump
 * the numbers say how many are left, and the next call goes on with them. */
void shim_modules_end(int *started);
void shim_modules_clean(int *begun);

/* Whether the struct is there, of a layout that is known. */
bool shim_modules_hold(const shim_part *part);
/* Whether a part of what the extension keeps is known to be a request's. */
bool shim_modules_travel(const char *name);

#endif
