/* Locks on files; waiting for them can park a request. */
#ifndef SVC_SHIM_LOCKS_H
#define SVC_SHIM_LOCKS_H

#include "fiber/fiber.h"
#include "owners/turns.h"

#include <stdbool.h>

int shim_lock_file(int descriptor, int operation);
/* The request ends. If it has ended by a bailout, its files stay open, and the flock() locks that it still holds are
 * released; otherwise they belong to whatever it has left to others. */
void shim_locks_end(const shim_fiber *holder, bool give_back);
/* The descriptor is closed. */
void shim_lock_strike(int descriptor);
/* Whether the descriptor has a lock that a request of another thread may wait for. That one is told once it is given back. */
bool shim_lock_is_noted(int descriptor, shim_file_lock *lock);
void shim_lock_tell(const shim_file_lock *lock);
void shim_locks_stop(void);
/* Whether a parked request waits for a lock on the descriptor. */
bool shim_is_being_locked(int descriptor);
/* Whether the request is to wait no more: its time limit has expired, or it is a task that has been cancelled. */
bool shim_is_over(void);
/* Whether the session extension is what waits. */
bool shim_waits_for_session(void);
/* Ends a wait that has failed: returns -1, or does not return. */
int shim_give_up(void);
void shim_locks_install(void);
int shim_lock_record(int descriptor, int command, void *lock, int (*call)(int, int, ...));

#endif
