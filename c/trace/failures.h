/* Events of a request's span that end its script. */
#ifndef SVC_SHIM_FAILURES_H
#define SVC_SHIM_FAILURES_H

#include "compat.h"
#include "shim.h"

/* Call before a fatal error is reported. That of an exception is recorded if only its text is known. */
void shim_failure_note(const shim_log *error, bool is_of_exception);
/* Records uncaught exceptions from now on. */
void shim_failures_install(void);

#endif
