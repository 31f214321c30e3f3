/* PHP's streams of `http:` and `https:`. */
#ifndef SVC_SHIM_HTTP_STREAMS_H
#define SVC_SHIM_HTTP_STREAMS_H

#include <stdbool.h>

/* Records these streams, and propagates the trace if `propagates`. Call before any thread runs PHP. */
void shim_http_streams_install(bool propagates);

#endif
