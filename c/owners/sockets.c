/* Which request has a socket; see sockets.h.
 *
 * Invariants. A note belongs to the file that the descriptor is open for: close() strikes it. Notes stay where they are in
 * memory, since requests wait for them. */
#include "compat.h"
#include "fiber/fiber.h"
#include "owners/sockets.h"
#include "owners/turns.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

typedef struct note {
    shim_owned socket;
    bool is_known;
    /* A datagram belongs to nobody, and neither does a socket that listens. */
    bool is_free;
    /* The connection that uses it, as far as was seen. */
    shim_owned *connection;
} note;

/* Notes are in blocks, which are never moved. Descriptors beyond them all are not noted. */
enum { BLOCK = 256, BLOCKS = 256 };
static __thread note *blocks[BLOCKS];

/* NULL if there is none. */
static note *find(int descriptor)
{
    note *block = descriptor >= 0 && descriptor < BLOCK * BLOCKS ? blocks[descriptor / BLOCK] : NULL;
    return block != NULL ? &block[descriptor % BLOCK] : NULL;
}

/* NULL if there is no memory. */
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

static void part(note *one)
{
    if (one->connection != NULL) {
        one->connection->descriptor = -1;
        one->connection = NULL;
    }
}

/* What is connected or first used inside a call on a connection is as much the request's as the connection is. */
static note *introduce(int descriptor)
{
    note *one = make(descriptor);
    if (one == NULL) {
        return NULL;
    }
    shim_turn_forget(&one->socket);
    part(one);
    *one = (note){.is_known = true, .socket = {.descriptor = descriptor, .is_unknown = true}};
    one->is_free = !is_conversation(descriptor);
    shim_fiber *fiber = shim_running;
    const shim_owned *calling = fiber != NULL ? fiber->calling : NULL;
    const bool is_joint =
        fiber == NULL || (calling != NULL && (calling->owner == NULL || calling->is_lent || calling->is_passed_on));
    if (!one->is_free && !is_joint) {
        shim_turn_own(&one->socket, fiber);
    }
    return one;
}

/* A call on a connection uses the socket. */
static void tie(note *one, int descriptor)
{
    shim_owned *connection = shim_running != NULL ? shim_running->calling : NULL;
    if (one == NULL || connection == NULL || one->connection == connection) {
        return;
    }
    part(one);
    shim_socket_part(connection);
    one->connection = connection;
    connection->descriptor = descriptor;
}

void shim_socket_part(const shim_owned *connection)
{
    note *one = find(connection->descriptor);
    if (one != NULL && one->connection == connection) {
        part(one);
    }
}

void shim_socket_shut_down(const shim_owned *connection)
{
    const note *one = find(connection->descriptor);
    if (one != NULL && one->connection == connection) {
        (void)shutdown(connection->descriptor, SHUT_RDWR);
    }
}

void shim_socket_connected(int descriptor)
{
    const int error = errno;
    tie(introduce(descriptor), descriptor);
    errno = error;
}

static bool fail(int error)
{
    errno = error;
    return false;
}

bool shim_socket_take(int descriptor)
{
    const int error = errno;
    note *one = find(descriptor);
    if (one == NULL || !one->is_known) {
        one = introduce(descriptor);
    }
    errno = error;
    tie(one, descriptor);
    /* Inside a call on a connection, the request has the connection. */
    if (one == NULL || one->is_free || shim_running->calling != NULL) {
        return true;
    }
    const shim_turn turn = shim_turn_take(&one->socket);
    errno = error;
    return turn == SHIM_TURN_HERE || fail(turn == SHIM_TURN_GONE ? EBADF : ECONNRESET);
}

void shim_socket_set_apart(int descriptor)
{
    note *one = find(descriptor);
    if (one != NULL && one->is_known) {
        shim_turn_set_apart(&one->socket);
    }
}

bool shim_socket_is_free(int descriptor)
{
    const note *one = find(descriptor);
    return one == NULL || !one->is_known || one->is_free || shim_turn_is_free(&one->socket);
}

void shim_socket_closed(int descriptor)
{
    note *one = find(descriptor);
    if (one != NULL && one->is_known) {
        shim_turn_forget(&one->socket);
        part(one);
        one->is_known = false;
    }
}

void shim_sockets_forget(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}
