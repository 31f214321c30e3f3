/* Whether the calls of libraries arrive at the functions that come before libc's. */
#ifndef SVC_SHIM_REACH_H
#define SVC_SHIM_REACH_H

/* shim_library_out_of_reach() is in shim.h. */
#include "shim.h"

#endif
