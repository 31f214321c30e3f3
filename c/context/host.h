/* Whoever embeds PHP, and what is said to it. */
#ifndef SVC_SHIM_HOST_H
#define SVC_SHIM_HOST_H

#include "shim.h"

extern shim_callbacks shim_host;
/* The host is this one from now on; who leaves out an entry does not listen. */
void shim_host_listen(const shim_callbacks *callbacks);
/* In a forked child, where nobody listens any more but whoever takes its log. */
void shim_host_forget(void (*log)(void *request, const shim_log *record));

static inline shim_view shim_view_of(const char *bytes, size_t length)
{
    return (shim_view){.bytes = bytes, .length = length};
}

#endif
