/* A request's description, as PHP wants it. */
#ifndef SVC_SHIM_REQUEST_INFO_H
#define SVC_SHIM_REQUEST_INFO_H

#include "shim.h"

/* Strings of a request for PHP, which wants them NUL-terminated and outside its own request memory. One block, kept
 * from request to request. */
typedef struct shim_strings {
    char *bytes;
    size_t size;
} shim_strings;

/* Puts it in its place (SG(request_info)). False: there is no memory. */
bool shim_describe(shim_strings *strings, const shim_request *request, char **script);

#endif
