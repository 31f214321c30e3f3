/* The span of the script that runs on the current thread. */
#include "php/context/current_span.h"

__thread uint64_t shim_current_span;
