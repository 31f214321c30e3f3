/* What recv() and send() do in a request that is suspended while it waits. */
#ifndef SVC_SHIM_SOCKETS_H
#define SVC_SHIM_SOCKETS_H

#include <stddef.h>
#include <sys/types.h>

/* The caller has asked whether the hook applies; the length is not 0. */
ssize_t shim_receive(int descriptor, void *buffer, size_t length);
ssize_t shim_send(int descriptor, const void *buffer, size_t length);

#endif
