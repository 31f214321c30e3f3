/* What ends a script, as events of its request's span. */
#ifndef SVC_SHIM_FAILURES_H
#define SVC_SHIM_FAILURES_H

#include "compat.h"
#include "shim.h"

/* A fatal error is about to be reported. That of an exception counts if only its text is known. */
void shim_failure_note(const shim_log *error, bool is_of_exception);
/* From now on, uncaught exceptions are noted. */
void shim_failures_install(void);

#endif
