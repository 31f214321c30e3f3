/* OPcache, which the threads of the process share. */
#ifndef SVC_PHP_OPCACHE_H
#define SVC_PHP_OPCACHE_H

#include "compat.h"

/* ---- OPcache as all threads use it (cache.c) ---- */

/* Calls a function of OPcache with an argument, or none (NULL). Returns false if there is no such function; the result is
 * false then. */
bool shim_opcache_call(const char *name, const zval *argument, zval *result);

/* The ID of OPcache's struct, of which each thread has one; 0 without OPcache. */
extern ts_rsrc_id shim_opcache_id;
static inline char *shim_opcache_struct(void)
{
    return TSRMG_BULK(shim_opcache_id, char *);
}
/* Returns the offset of a directive's value in the struct; 0 if it is unknown. */
size_t shim_opcache_offset(const char *name, size_t length);

/* Call after all extensions have started. */
void shim_opcache_install(void);
/* Call once PHP's structs exist for this thread. */
void shim_opcache_thread_start(void);
/* Call before the thread's structs are freed, while no other thread can restart OPcache. */
void shim_opcache_thread_stop(void);
/* Call after php_request_startup. */
void shim_opcache_request_started(void);
/* Call when this thread releases OPcache's lock. */
void shim_opcache_unlocked(void);

/* ---- OPcache's lock file (lock.c) ---- */

/* Whether fcntl() has been answered, because the lock matters to OPcache only. */
bool shim_opcache_handles(int descriptor, int command, void *argument);

#endif
