/* A step of a request: what may run a script's code. */
#ifndef SVC_SHIM_STEP_H
#define SVC_SHIM_STEP_H

#include "fiber/fiber.h"
#include "jump/guard.h"

/* An exception that nobody caught: the script's handler gets it, or the log. exit() is none. */
void shim_exception_report(void);
/* Runs a step of a request; what it throws is reported in its name. */
bool shim_step(const shim_place *here, void (*step)(shim_fiber *), shim_fiber *fiber);

#endif
