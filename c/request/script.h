/* The script of a request. */
#ifndef SVC_SHIM_SCRIPT_H
#define SVC_SHIM_SCRIPT_H

#include "compat.h"

/* The file of the running script; NULL if none is running. */
extern __thread zend_file_handle *shim_script;

#endif
