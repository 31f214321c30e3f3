/* When the cycle collector runs. */
#ifndef SVC_SHIM_COLLECTOR_H
#define SVC_SHIM_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>

void shim_collector_install(void);
/* Resets the state of the collector; call when a worker boots. */
void shim_collector_forget(void);
bool shim_is_collecting(void);
/* Call after each bailout: PHP protects the collector, because it takes the bailout for a shutdown. If the bailout came
 * out of a collection, its buffer is only partly processed, and the collector stays protected. */
void shim_collector_unprotect(void);
/* Collects, whatever requests are active: on behalf of a request that has already ended for its client. */
void shim_collector_collect(void);
/* Whether there is enough possible garbage for a collection between two requests; shim_collector_run() runs it. */
bool shim_collector_is_due(void);
/* Returns in how many nanoseconds an idle thread should collect; negative if there is nothing to collect. */
int64_t shim_collector_idle_wait(void);
void shim_collector_run(void);

#endif
