/* The worker of the thread, as everybody may see it. */
#include "internal.h"

__thread shim_worker shim_own_worker;
