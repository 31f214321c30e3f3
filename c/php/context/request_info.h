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

/* The script and its working directory. */
typedef struct shim_files {
    const char *script;
    /* NULL: the directory of SG(request_info).path_translated. */
    const char *folder;
} shim_files;

/* Fills SG(request_info). Returns false if out of memory. */
bool shim_describe(shim_strings *strings, const shim_request *request, shim_files *files);

#endif
