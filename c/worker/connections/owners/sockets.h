/* Ownership of sockets: the safety net below the owners of connections.
 *
 * Owners are found through the objects and resources that PHP calls connections. Everything that reaches a socket in
 * another way (a stream of PHP itself, an unknown extension, an overlooked call) is stopped here, where its bytes pass
 * through libc.
 *
 * What it guarantees. A socket that a connection uses has the owner of the connection; connections that share one
 * (persistent ones, however a script names them) have one common owner. Any other stream socket belongs to the running
 * request that connected it, or used it first, until that request ends; the rest belong to the joint owner (turns.h),
 * unless they are apart. A call of a known library that sends or receives waits until its request owns the socket, inside
 * calls on connections, too. So between the first byte that a request sends on a socket and the end of the request, no
 * other request of the thread sends or receives on that socket: it may wait for long, but it never receives data that was
 * meant for another request.
 *
 * What it does not guarantee. It sees calls of the libraries in worker/hooks/callers.c only: not those of unlisted extensions, and
 * not those of OpenSSL. For PHP's own TLS streams, worker/connections/streams.c asks before OpenSSL is called. It does not know
 * protocols: the next request finds what an earlier one left unread on a stream. A hook cannot throw: where the wait would
 * be a deadlock, or cannot begin, the call fails as if the connection were lost. Datagram sockets, listening sockets and
 * pipes have no owner. */
#ifndef SVC_SHIM_OWNED_SOCKETS_H
#define SVC_SHIM_OWNED_SOCKETS_H

#include "worker/connections/owners/turns.h"

#include <stdbool.h>

/* The running request, or the boot script, has connected the socket. */
void shim_socket_connected(int descriptor);
/* Called before the running request sends or receives: waits until it owns the socket. Returns false if the call has to
 * fail, with errno set. Otherwise keeps errno. */
bool shim_socket_take(int descriptor);
/* Applies shim_turn_set_apart to a connection and its sockets, or to a stream's socket. */
void shim_socket_set_apart(shim_owned *connection);
void shim_socket_set_stream_apart(int descriptor);
/* Releases the connection (shim_turn_give) unless it is passed on, and releases its shared sockets. */
void shim_socket_give(shim_owned *connection);
/* Whether another connection uses one of its sockets, too. */
bool shim_socket_is_shared(const shim_owned *connection);
/* Whether the running request could use the socket without waiting. */
bool shim_socket_is_free(int descriptor);
/* Forgets the socket of a closed descriptor; its waiters fail. */
void shim_socket_closed(int descriptor);
/* Shuts down the sockets of a connection: its next user finds the connection lost. */
void shim_socket_shut_down(const shim_owned *connection);
/* Separates a connection from its sockets before it is destroyed. */
void shim_socket_part(shim_owned *connection);
void shim_sockets_forget(void);

#endif
