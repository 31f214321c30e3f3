/* Transfers of curl. */
#ifndef SVC_SHIM_CURL_CALLS_H
#define SVC_SHIM_CURL_CALLS_H

#include <stdbool.h>

/* Requests of curl pass the trace on if `propagates`. Returns false if there is no memory. */
bool shim_curl_calls_install(bool propagates);

#endif
