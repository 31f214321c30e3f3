/* The description of a request in PHP's form. */
#ifndef SVC_SHIM_REQUEST_INFO_H
#define SVC_SHIM_REQUEST_INFO_H

#include "shim.h"

/* The strings of a request for PHP, which requires them to be NUL-terminated and outside the request's own memory. One
 * block, reused for each request. */
typedef struct shim_strings {
    char *bytes;
    size_t size;
} shim_strings;

/* What runs, and where. */
typedef struct shim_files {
    const char *script;
    /* NULL if it is the folder of the path that SG(request_info) has. */
    const char *folder;
} shim_files;

/* Fills SG(request_info). Returns false if out of memory. */
bool shim_describe(shim_strings *strings, const shim_request *request, shim_files *files);

#endif
