/* OPcache, from the view of a worker and its requests. */
#ifndef SVC_PHP_OPCACHE_H
#define SVC_PHP_OPCACHE_H

#include "compat.h"

/* ---- OPcache, from the view of a worker and its requests (cache.c) ---- */

/* Returns the handler of the function; NULL if there is none. */
zif_handler shim_opcache_function(const char *name);

/* Call after all extensions have started. */
void shim_cache_install(void);
/* Call once PHP's structs exist for this thread. */
void shim_cache_thread_start(void);
/* Call after php_request_startup. */
void shim_cache_started(bool is_boot);
/* Whether this worker may execute from the cache. One that started up while OPcache waited for a restart may not:
 * OPcache restarts during its life. */
bool shim_cache_is_used(void);
/* Whether OPcache serves this thread and holds the file. */
bool shim_cache_holds(zend_string *path);
/* Sets whether OPcache compares the files of this thread with the disk. Returns the former value. */
bool shim_cache_validate(bool validates);
/* Call when this thread releases OPcache's lock. */
void shim_cache_unlocked(void);
/* Call when a request of a worker begins; `time` is its time of arrival. */
void shim_cache_begin(double time);

/* ---- OPcache's lock file (lock.c) ---- */

/* Whether fcntl() has been answered, because the lock matters to OPcache only. */
bool shim_opcache_handles(int descriptor, int command, void *argument);

#endif
