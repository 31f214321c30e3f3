/* The end of a request. */
#ifndef SVC_SHIM_ENDING_H
#define SVC_SHIM_ENDING_H

#include "fiber/fiber.h"
#include "jump/guard.h"

void shim_request_finish(shim_fiber *fiber, const shim_place *here);

#endif
