/* OPcache, as a worker and its requests see it. */
#ifndef SVC_SHIM_CACHE_H
#define SVC_SHIM_CACHE_H

#include <stdbool.h>

/* After all extensions have started. */
void shim_cache_install(void);
/* PHP's structs exist for this thread. */
void shim_cache_thread_start(void);
/* php_request_startup has run. */
void shim_cache_started(bool is_boot);
/* Whether this worker may execute from the cache. One that started up while OPcache waited for a restart may not: OPcache
 * restarts while it lives. */
bool shim_cache_is_used(void);
/* This thread releases OPcache's lock. */
void shim_cache_unlocked(void);
/* A request of a worker begins; `time` is when it arrived. */
void shim_cache_begin(double time);

#endif
