/* OPcache, as a worker and its requests see it. */
#ifndef SVC_SHIM_CACHE_H
#define SVC_SHIM_CACHE_H

#include <stdbool.h>

/* After all extensions have started. */
void shim_cache_install(void);
/* This thread has PHP's structs. */
void shim_cache_thread_start(void);
/* php_request_startup has run. */
void shim_cache_started(bool is_boot);
/* This thread gives back OPcache's lock. */
void shim_cache_unlocked(void);
/* A request of a worker begins, which arrived then. */
void shim_cache_begin(double time);

#endif
