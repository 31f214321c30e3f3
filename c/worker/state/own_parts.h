/* The parts of PHP's own extensions. */
#ifndef SVC_SHIM_OWN_PARTS_H
#define SVC_SHIM_OWN_PARTS_H

#include "worker/state/part.h"

extern const shim_part shim_own_parts[];
extern const size_t shim_own_parts_count;

#endif
