/* Timeouts of scripts, and their deadlines. */
#ifndef SVC_SHIM_TIMEOUT_H
#define SVC_SHIM_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the time `seconds` from now, on the clock of shim_now(); a year at most, and never 0, which means no deadline. */
int64_t shim_deadline_after(double seconds);
/* Computes the deadline of a parameter `?float $timeout = null`; 0 if it is null. If it is negative, returns false and
 * throws the same exception as PHP's own functions. */
bool shim_deadline_of(int64_t *deadline, double timeout, bool is_null, uint32_t parameter);

#endif
