/* Locks on files, which are waited for as a request can wait. */
#ifndef SVC_SHIM_LOCKS_H
#define SVC_SHIM_LOCKS_H

#include "fiber/fiber.h"

#include <stdbool.h>

int shim_lock_file(int descriptor, int operation);
/* The request ends. Locks by flock() that it still holds are given back if it has ended by a jump, which leaves its files
 * open; otherwise they are held by what it has left to others. */
void shim_locks_end(const shim_fiber *holder, bool give_back);
/* The descriptor is closed. */
void shim_lock_strike(int descriptor);
void shim_locks_stop(void);
/* Whether a request that is parked waits for a lock of it. */
bool shim_is_being_locked(int descriptor);
/* Whether the time of the request is over. */
bool shim_is_over(void);
/* Whether it is the session extension that waits. */
bool shim_waits_for_session(void);
/* Ends a wait that has not got what it waited for: -1, or not at all. */
int shim_give_up(void);
int shim_lock_record(int descriptor, int command, void *lock, int (*call)(int, int, ...));

#endif
