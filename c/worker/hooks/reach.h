/* Checks whether the calls of libraries reach the replacements of libc functions. */
#ifndef SVC_SHIM_REACH_H
#define SVC_SHIM_REACH_H

/* shim_library_out_of_reach() is declared in shim.h. */
#include "shim.h"

#endif
