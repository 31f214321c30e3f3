/* Waits for one socket, with the timeouts of its options. */
#ifndef SVC_SHIM_SOCKET_WAIT_H
#define SVC_SHIM_SOCKET_WAIT_H

#include "worker/hooks/hooked_wait.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether calls with this descriptor block: it is open, and not O_NONBLOCK. */
bool shim_is_blocking(int descriptor);
/* Sets close-on-exec, so that programs which other requests start meanwhile do not inherit the descriptor. Keeps errno. */
void shim_close_at_exec(int descriptor);
/* Returns the deadline of a wait that begins now, from SO_RCVTIMEO or SO_SNDTIMEO; 0 if there is none. */
int64_t shim_socket_deadline(int descriptor, int option);
/* Waits for poll() events of a socket that is not ready. Returns true if the caller tries again. Otherwise `waited` is
 * SHIM_WAITED_BLOCK if the caller has to call libc, or errno is set: EAGAIN at the deadline, EBADF if the socket was
 * closed, ECONNRESET if the request is over. */
bool shim_wait_for_socket(int descriptor, short events, int64_t deadline, shim_waited *waited);
/* The same where no event reports that the next attempt may succeed: pauses. `pause` starts at 0; each pause is longer than
 * the previous one. */
bool shim_pause_at_socket(int descriptor, int64_t deadline, int64_t *pause, shim_waited *waited);

#endif
