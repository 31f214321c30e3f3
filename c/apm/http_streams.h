/* PHP's streams of `http:` and `https:`. */
#ifndef SVC_SHIM_HTTP_STREAMS_H
#define SVC_SHIM_HTTP_STREAMS_H

#include <stdbool.h>

/* They are recorded, and pass the trace on if `propagates`. Before any thread runs PHP. */
void shim_http_streams_install(bool propagates);

#endif
