/* Transfers of curl. */
#ifndef SVC_SHIM_CURL_CALLS_H
#define SVC_SHIM_CURL_CALLS_H

#include <stdbool.h>

/* Observes curl. Its requests propagate the trace if `propagates`. Returns false if out of memory. */
bool shim_curl_calls_install(bool propagates);

#endif
