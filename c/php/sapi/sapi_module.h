/* The SAPI module. */
#ifndef SVC_SHIM_SAPI_MODULE_H
#define SVC_SHIM_SAPI_MODULE_H

#include "compat.h"

extern sapi_module_struct shim_sapi;
/* Sends an informational response with the fields set so far. */
void shim_send_interim(int status);

#endif
