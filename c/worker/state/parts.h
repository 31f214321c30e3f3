/* All tables of parts as one. */
#ifndef SVC_SHIM_PARTS_H
#define SVC_SHIM_PARTS_H

#include "worker/state/part.h"

enum { SHIM_PARTS_MAX = 32 };

/* Returns a part; NULL after the last one. Those of libraries come first: they are started first and stopped last. */
const shim_part *shim_part_at(size_t index);
/* Whether PHP's directives confirm the declared layout of the struct. */
bool shim_part_fits(const shim_part *part);

#endif
