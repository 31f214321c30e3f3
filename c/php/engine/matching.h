/* The memory that pcre shares among matches. */
#ifndef SVC_SHIM_MATCHING_H
#define SVC_SHIM_MATCHING_H

#include <stdbool.h>

/* Call after PHP has started the boot request: from now on, requests of this thread match without the shared memory.
 * Returns false if out of memory. */
bool shim_matching_begin(void);
/* Call after the boot request has ended. */
void shim_matching_end(void);

#endif
