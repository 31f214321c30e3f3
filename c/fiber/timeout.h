/* How long a script wants to wait, and until when that is. */
#ifndef SVC_SHIM_TIMEOUT_H
#define SVC_SHIM_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

/* The moment `seconds` from now, on the clock of shim_now(); a year at most, and never 0, which means none. */
int64_t shim_deadline_after(double seconds);
/* The deadline of a parameter `?float $timeout = null`; 0 if it is null. Returns false, with the exception that PHP's own
 * functions would throw, if it is negative. */
bool shim_deadline_of(int64_t *deadline, double timeout, bool is_null, uint32_t parameter);

#endif
