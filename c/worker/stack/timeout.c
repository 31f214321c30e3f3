/* Timeouts of scripts, and their deadlines. */
#include "compat.h"
#include "php/libc/clock.h"
#include "worker/stack/timeout.h"

/* Longer than any limit, and far below the range of int64_t in nanoseconds. */
#define SECONDS_MAX 31536000.0

int64_t shim_deadline_after(double seconds)
{
    const int64_t moment = shim_now() + (int64_t)((seconds < SECONDS_MAX ? seconds : SECONDS_MAX) * 1e9);
    return moment > 0 ? moment : 1;
}

bool shim_deadline_of(int64_t *deadline, double timeout, bool is_null, uint32_t parameter)
{
    if (!is_null && !(timeout >= 0)) {
        zend_argument_value_error(parameter, "must be null, or greater than or equal to 0");
        return false;
    }
    *deadline = is_null ? 0 : shim_deadline_after(timeout);
    return true;
}
