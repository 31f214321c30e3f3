/* The end of a request. */
#ifndef SVC_SHIM_ENDING_H
#define SVC_SHIM_ENDING_H

#include "worker/bailout/guard.h"
#include "worker/stack/fiber.h"

void shim_request_finish(shim_fiber *fiber, const shim_place *here);

#endif
