/* Whoever embeds PHP, and what is said to it. */
#ifndef SVC_SHIM_HOST_H
#define SVC_SHIM_HOST_H

#include "shim.h"

extern shim_callbacks shim_host;

static inline shim_view shim_view_of(const char *bytes, size_t length)
{
    return (shim_view){.bytes = bytes, .length = length};
}

#endif
