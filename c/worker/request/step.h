/* A step of a request: code that may run script code. */
#ifndef SVC_SHIM_STEP_H
#define SVC_SHIM_STEP_H

#include "worker/bailout/guard.h"
#include "worker/stack/fiber.h"

/* Reports an uncaught exception to the script's handler or to the log; exit() is ignored. */
void shim_exception_report(void);
/* Runs a step of a request and reports its exceptions on behalf of the request. */
bool shim_step(const shim_place *here, void (*step)(shim_fiber *), shim_fiber *fiber);

#endif
