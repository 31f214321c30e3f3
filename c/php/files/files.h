/* Descriptors, locks on files, files by name, and shared memory. */
#ifndef SVC_PHP_FILES_H
#define SVC_PHP_FILES_H

#include <stdbool.h>

/* ---- Locks on files (locks.c) ---- */

bool shim_is_past_limit(void);
/* Whether the request must not wait any longer: its time limit has expired, or it is a cancelled task. */
bool shim_is_over(void);
/* Whether the session extension is waiting. */
bool shim_waits_for_session(void);
/* Ends a wait that has failed: returns -1, or does not return. */
int shim_give_up(void);
/* Calls flock(), and blocks the thread if it has to wait. `may_block`, unless NULL, is called before that; if it returns
 * false, it has set errno. */
int shim_flock_here(int descriptor, int operation, bool (*may_block)(int descriptor));

/* ---- Files by name, looked up as in php-fpm (paths.c) ---- */

/* Finds the functions that resolve paths. Call once, after PHP's modules have started. */
void shim_paths_install(void);
/* Call after the working directory of the request has changed: makes it that of the thread, if threads have their own, for
 * relative paths that C libraries open (cookies of libcurl, databases that SQLite attaches, names of Unix sockets). */
void shim_directory_follow(void);
/* Returns the request's directory if the thread is elsewhere: because threads share the directory of the process, or because
 * the request's was removed. NULL if the thread is in it, or runs no request. */
const char *shim_directory_apart(void);

/* ---- Locks of databases (database_locks.c) ---- */

/* Makes SQLite's locks independent of descriptors that others close. Call once, after PHP's modules have started. */
void shim_database_locks_install(void);

/* ---- Segments of shared memory (shared_memory.c) ---- */

/* Call once, after PHP's modules have started. */
void shim_shared_memory_install(void);

#endif
