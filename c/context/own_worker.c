/* The worker of the thread, as everybody may see it. */
#include "compat.h"
#include "context/own_worker.h"

__thread shim_worker shim_own_worker;
