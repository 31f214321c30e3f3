/* The worker of the current thread. */
#include "compat.h"
#include "php/context/own_worker.h"

__thread shim_worker shim_own_worker;
