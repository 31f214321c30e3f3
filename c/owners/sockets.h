/* Which request has a socket: the net below the owners of connections.
 *
 * Owners are found by what PHP calls a connection. Whatever reaches a socket in another way (a stream of PHP's own, an
 * extension that nobody told us about, a call that was overlooked) is stopped here, where its bytes go through libc.
 *
 * What it guarantees. A socket that a connection uses has the owner of the connection: one that several use (persistent
 * ones, however they are spelled) makes them one thing with one owner. Of the others, a stream socket that a running request
 * has connected, or was the first to use, is that request's to its end; every other one belongs to the joint owner
 * (turns.h), unless it is apart. A call of a known library that sends or receives waits until its request has the socket,
 * inside calls on connections, too. So between the first byte that a request sends on a socket and its end, no other
 * request of the thread sends or receives on that socket: it may wait for long, but it does not get what was not meant
 * for it.
 *
 * What it does not. It sees calls of the libraries in libc/callers.c alone: not those of extensions that are not listed,
 * and not those of OpenSSL. For PHP's own TLS streams, connections/streams.c asks before OpenSSL is called. It does not
 * know protocols: what a request leaves unread on a stream is there for the next one. A hook cannot throw: where the wait would close a circle, or cannot
 * begin, the call fails as if the connection were lost. Datagrams, listening sockets and pipes are nobody's. */
#ifndef SVC_SHIM_OWNED_SOCKETS_H
#define SVC_SHIM_OWNED_SOCKETS_H

#include "owners/turns.h"

#include <stdbool.h>

/* The running request, or the boot script, has connected the socket. */
void shim_socket_connected(int descriptor);
/* The running request sends or receives: waits until it has the socket. Returns false if the call has to fail; errno is
 * set. Otherwise keeps errno. */
bool shim_socket_take(int descriptor);
/* See shim_turn_set_apart: of a connection and its sockets, or of a stream's. */
void shim_socket_set_apart(shim_owned *connection);
void shim_socket_set_stream_apart(int descriptor);
/* The connection is nobody's (shim_turn_give) unless it is passed on, and so are its sockets. */
void shim_socket_give(shim_owned *connection);
/* Whether another connection uses one of its sockets, too. */
bool shim_socket_is_shared(const shim_owned *connection);
/* Whether it could do so without waiting. */
bool shim_socket_is_free(int descriptor);
/* The descriptor is closed. */
void shim_socket_closed(int descriptor);
/* Ends both directions of the sockets that a connection uses: whoever uses the connection next learns that it is lost. */
void shim_socket_shut_down(const shim_owned *connection);
/* The connection is no more. */
void shim_socket_part(shim_owned *connection);
void shim_sockets_forget(void);

#endif
