/* Ownership of sockets; see owners.h.
 *
 * Invariants. A note belongs to the file that the descriptor is open for: close() invalidates it. Notes are never moved in
 * memory, since requests wait for them. A socket that one connection uses has the owner of that connection; a socket that
 * several connections use, or a connection and other code, has a separate owner, whom all of them wait for. */
#include "compat.h"
#include "worker/connections/owners/owners.h"
#include "worker/stack/stack.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

typedef struct shim_note {
    shim_owned socket;
    int descriptor;
    bool is_known;
    /* Exempt from ownership: a datagram or listening socket. */
    bool is_free;
    bool is_shared;
    /* The connection that has used it last; NULL if none has. */
    shim_owned *connection;
    LIST_ENTRY(shim_note) link;
} note;

/* Notes are in blocks, which are never moved. Descriptors above the last block have no notes. */
enum { BLOCK = 256, BLOCKS = 256 };
static __thread note *blocks[BLOCKS];

/* Returns the note of a descriptor; NULL if its block does not exist. */
static note *find(int descriptor)
{
    note *block = descriptor >= 0 && descriptor < BLOCK * BLOCKS ? blocks[descriptor / BLOCK] : NULL;
    return block != NULL ? &block[descriptor % BLOCK] : NULL;
}

static note *find_known(int descriptor)
{
    note *one = find(descriptor);
    return one != NULL && one->is_known ? one : NULL;
}

/* Returns the note of a descriptor, allocating its block; NULL if out of memory or out of range. */
static note *make(int descriptor)
{
    if (descriptor < 0 || descriptor >= BLOCK * BLOCKS) {
        return NULL;
    }
    note **block = &blocks[descriptor / BLOCK];
    if (*block == NULL) {
        *block = calloc(BLOCK, sizeof(**block));
    }
    return find(descriptor);
}

static int option_of(int descriptor, int option)
{
    int value = 0;
    socklen_t size = sizeof(value);
    return getsockopt(descriptor, SOL_SOCKET, option, &value, &size) == 0 ? value : 0;
}

static bool is_conversation(int descriptor)
{
    return option_of(descriptor, SO_TYPE) == SOCK_STREAM && option_of(descriptor, SO_ACCEPTCONN) == 0;
}

/* ---- sockets of connections ---- */

static void detach(note *one)
{
    if (one->connection == NULL) {
        return;
    }
    LIST_REMOVE(one, link);
    one->connection = NULL;
}

/* A call on the connection uses the socket. */
static void attach(note *one, shim_owned *connection)
{
    if (one->connection == connection) {
        return;
    }
    detach(one);
    one->connection = connection;
    LIST_INSERT_HEAD(&connection->sockets, one, link);
    if (one->is_shared) {
        one->socket.is_leased = connection->is_leased;
    }
}

/* The socket stops sharing the owner of its connection: copies that owner to the socket. */
static void inherit(note *one)
{
    const shim_owned *connection = one->connection;
    if (one->is_shared || connection == NULL) {
        return;
    }
    one->socket.is_leased = connection->is_leased;
    one->socket.is_exclusive = connection->is_exclusive;
    if (one->socket.owner != connection->owner) {
        shim_owned_release(&one->socket);
        if (connection->owner != NULL) {
            shim_owner_set(&one->socket, connection->owner);
        }
    }
}

/* Returns the resource whose owner may use the socket. */
static shim_owned *owned_of(note *one)
{
    return one->connection != NULL && !one->is_shared ? one->connection : &one->socket;
}

void shim_socket_detach(shim_owned *connection)
{
    while (!LIST_EMPTY(&connection->sockets)) {
        inherit(LIST_FIRST(&connection->sockets));
        detach(LIST_FIRST(&connection->sockets));
    }
}

void shim_socket_merge(shim_owned *from, shim_owned *to)
{
    while (!LIST_EMPTY(&from->sockets)) {
        note *one = LIST_FIRST(&from->sockets);
        attach(one, to);
        one->is_shared = false;
        shim_owned_release(&one->socket);
    }
}

void shim_socket_shut_down(const shim_owned *connection)
{
    const note *one;
    LIST_FOREACH(one, &connection->sockets, link) {
        (void)shutdown(one->descriptor, SHUT_RDWR);
    }
}

void shim_socket_release(shim_owned *connection)
{
    note *one;
    LIST_FOREACH(one, &connection->sockets, link) {
        if (one->is_shared && one->socket.is_leased) {
            shim_owned_release(&one->socket);
        }
    }
    if (!connection->is_passed_on) {
        shim_owned_release(connection);
    }
}

bool shim_socket_is_shared(const shim_owned *connection)
{
    const note *one = LIST_FIRST(&connection->sockets);
    while (one != NULL && !one->is_shared) {
        one = LIST_NEXT(one, link);
    }
    return one != NULL;
}

void shim_socket_set_exclusive(shim_owned *connection)
{
    note *one;
    LIST_FOREACH(one, &connection->sockets, link) {
        shim_owner_set_exclusive(&one->socket);
    }
    shim_owner_set_exclusive(connection);
}

/* ---- descriptors ---- */

/* Creates the note of a socket that was connected or used for the first time. Inside a call on a connection, the socket
 * belongs to the request exactly as far as the connection does. */
static note *add_note(int descriptor)
{
    note *one = make(descriptor);
    if (one == NULL) {
        return NULL;
    }
    shim_owned_forget(&one->socket);
    detach(one);
    *one = (note){.is_known = true, .descriptor = descriptor, .socket = {.is_unknown = true}};
    one->is_free = !is_conversation(descriptor);
    shim_fiber *fiber = shim_running;
    shim_owned *calling = fiber != NULL ? shim_use_here() : NULL;
    const bool is_shared =
        fiber == NULL || (calling != NULL && (calling->owner == NULL || calling->is_lent || calling->is_passed_on)) ||
        fiber->lends_nothing;
    if (!one->is_free && !is_shared) {
        shim_owner_set(&one->socket, fiber);
    }
    if (calling != NULL) {
        attach(one, calling);
    }
    return one;
}

void shim_socket_connected(int descriptor)
{
    const int error = errno;
    (void)add_note(descriptor);
    errno = error;
}

static bool fail(int error)
{
    errno = error;
    return false;
}

/* Whether the socket becomes that of the connection that uses it: no other use is known, and it has no owner but the
 * running request. */
static bool is_unused(const note *one)
{
    return one->connection == NULL && !one->is_shared &&
           (one->socket.owner == NULL || one->socket.owner == shim_running);
}

/* Persistent connections and a library's pools have several objects for a socket. However scripts name them, every user
 * waits for the socket's owner. */
static shim_acquisition take(note *one, shim_owned *calling)
{
    if (calling != NULL && is_unused(one)) {
        attach(one, calling);
    }
    if (calling == NULL && one->connection != NULL && !one->connection->is_leased && !one->is_shared &&
        shim_owned_is_free(one->connection)) {
        /* svc resets the connection of the request, or a library checks it before the call knows the connection. */
        return shim_owned_acquire(one->connection);
    }
    if (one->connection == calling && !one->is_shared) {
        /* Inside a call on a connection, the request owns the connection. */
        return calling != NULL ? SHIM_ACQUIRED : shim_owned_acquire(&one->socket);
    }
    inherit(one);
    one->is_shared = one->is_shared || one->connection != NULL;
    const shim_acquisition result = shim_owned_acquire(&one->socket);
    if (result == SHIM_ACQUIRED && calling != NULL) {
        attach(one, calling);
    }
    return result;
}

bool shim_socket_take(int descriptor)
{
    const int error = errno;
    note *one = find_known(descriptor);
    one = one != NULL ? one : add_note(descriptor);
    if (one == NULL || one->is_free) {
        errno = error;
        return true;
    }
    const shim_acquisition result = take(one, shim_use_here());
    errno = error;
    return result == SHIM_ACQUIRED || fail(result == SHIM_ACQUIRE_DESTROYED ? EBADF : ECONNRESET);
}

void shim_socket_set_stream_exclusive(int descriptor)
{
    note *one = find_known(descriptor);
    if (one != NULL) {
        shim_owner_set_exclusive(&one->socket);
    }
}

bool shim_socket_is_free(int descriptor)
{
    note *one = find_known(descriptor);
    return one == NULL || one->is_free || shim_owned_is_free(owned_of(one));
}

void shim_socket_closed(int descriptor)
{
    note *one = find_known(descriptor);
    if (one != NULL) {
        detach(one);
        one->is_known = false;
        shim_owned_forget(&one->socket);
    }
}

void shim_sockets_forget(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}
