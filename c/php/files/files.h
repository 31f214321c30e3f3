/* Descriptors, locks on files, and files by name. */
#ifndef SVC_PHP_FILES_H
#define SVC_PHP_FILES_H

#include "worker/connections/owners/owners.h"
#include "worker/stack/stack.h"

#include <stdbool.h>

/* ---- Locks on files (locks.c) ---- */

int shim_lock_file(int descriptor, int operation);
/* Call when the request ends. If it has ended by a bailout, its files stay open, and the flock() locks that it still
 * holds are released; otherwise they belong to the objects that it has left behind. */
void shim_locks_end(const shim_fiber *holder, bool give_back);
/* The descriptor is closed: forgets its lock. */
void shim_lock_strike(int descriptor);
/* Whether the descriptor has a lock that a request of another thread may wait for; shim_lock_tell() notifies that
 * request once the lock is released. */
bool shim_lock_is_noted(int descriptor, shim_file_lock *lock);
void shim_lock_tell(const shim_file_lock *lock);
void shim_locks_stop(void);
/* Whether a parked request waits for a lock on the descriptor. */
bool shim_is_being_locked(int descriptor);
/* Whether the request must not wait any longer: its time limit has expired, or it is a cancelled task. */
bool shim_is_over(void);
/* Whether the session extension is waiting. */
bool shim_waits_for_session(void);
/* Ends a wait that has failed: returns -1, or does not return. */
int shim_give_up(void);
void shim_locks_install(void);
int shim_lock_record(int descriptor, int command, void *lock, int (*call)(int, int, ...));

/* ---- Files by name, looked up as in php-fpm (paths.c) ---- */

/* Finds the functions that resolve paths. Call once, after PHP's modules have started. */
void shim_paths_install(void);

#endif
