/* When the cycle collector runs. */
#ifndef SVC_SHIM_COLLECTOR_H
#define SVC_SHIM_COLLECTOR_H

#include <stdbool.h>

void shim_collector_install(void);
/* A worker boots. */
void shim_collector_forget(void);
bool shim_is_collecting(void);
/* After each jump: PHP protects the collector from what it calls a shut-down. If the jump came out of a collection, its
 * buffer is half worked off, and it stays protected. */
void shim_collector_unprotect(void);
/* Whether there is so much possible garbage that it should be collected between two requests; and that. */
bool shim_collector_is_due(void);
void shim_collector_run(void);

#endif
