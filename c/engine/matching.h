/* What pcre keeps for whoever matches. */
#ifndef SVC_SHIM_MATCHING_H
#define SVC_SHIM_MATCHING_H

#include <stdbool.h>

/* PHP has started the boot request: requests of this thread match without what they would share. False: there is no
 * memory. */
bool shim_matching_begin(void);
/* The boot request has ended. */
void shim_matching_end(void);

#endif
