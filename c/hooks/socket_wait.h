/* Calls that wait for one socket, as long as its options say. */
#ifndef SVC_SHIM_SOCKET_WAIT_H
#define SVC_SHIM_SOCKET_WAIT_H

#include "hooks/hooked_wait.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether calls with this descriptor wait: it is open, and not O_NONBLOCK. */
bool shim_is_blocking(int descriptor);
/* Programs that other requests start meanwhile do not get it, and do not keep it open. Keeps errno. */
void shim_close_at_exec(int descriptor);
/* The end of a wait that begins now, by SO_RCVTIMEO or SO_SNDTIMEO; 0 if there is none. */
int64_t shim_socket_deadline(int descriptor, int option);
/* Waits for poll() events of a socket that is not ready. Returns true if the caller is to try again. Otherwise, either
 * `waited` tells that it has to call libc, or errno is set: EAGAIN at the
 * deadline, EBADF if the socket has been closed, ECONNRESET if the request is over. */
bool shim_wait_for_socket(int descriptor, short events, int64_t deadline, shim_waited *waited);
/* The same where nothing tells when the next attempt succeeds: pauses. Each pause is longer than the previous one, and
 * the first one starts from 0. */
bool shim_pause_at_socket(int descriptor, int64_t deadline, int64_t *pause, shim_waited *waited);

#endif
