/* The parts of extensions that wrap libraries. */
#ifndef SVC_SHIM_LIBRARY_PARTS_H
#define SVC_SHIM_LIBRARY_PARTS_H

#include "worker/state/part.h"

extern const shim_part shim_library_parts[];
extern const size_t shim_library_parts_count;

#endif
