/* The host that embeds PHP, and the calls to it. */
#ifndef SVC_SHIM_HOST_H
#define SVC_SHIM_HOST_H

#include "shim.h"

extern shim_callbacks shim_host;
/* Installs the host's callbacks; entries that are left out get a default. */
void shim_host_listen(const shim_callbacks *callbacks);
/* Call in a forked child, which has no host except for its log. */
void shim_host_forget(void (*log)(void *request, const shim_log *record));

static inline shim_view shim_view_of(const char *bytes, size_t length)
{
    return (shim_view){.bytes = bytes, .length = length};
}

#endif
