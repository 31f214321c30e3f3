/* recv() and send() for hooks of other calls: only the request waits, not its thread. */
#ifndef SVC_SHIM_SOCKETS_H
#define SVC_SHIM_SOCKETS_H

#include <stddef.h>
#include <sys/types.h>

/* The caller has checked that the hook applies; `length` is not 0. */
ssize_t shim_receive(int descriptor, void *buffer, size_t length);
ssize_t shim_send(int descriptor, const void *buffer, size_t length);

#endif
