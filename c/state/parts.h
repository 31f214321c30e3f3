/* All tables of parts as one. */
#ifndef SVC_SHIM_PARTS_H
#define SVC_SHIM_PARTS_H

#include "state/part.h"

enum { SHIM_PARTS_MAX = 32 };

/* Those of libraries come first: they are started first and stopped last. Returns NULL after the last one. */
const shim_part *shim_part_at(size_t index);
/* Whether PHP's directives confirm that the struct is the one that is written down. */
bool shim_part_fits(const shim_part *part);

#endif
