/* Compatibility with FrankenPHP. */
#ifndef SVC_SHIM_FRANKENPHP_H
#define SVC_SHIM_FRANKENPHP_H

#include "compat.h"

void shim_frankenphp_register(int module_number);
PHP_FUNCTION(frankenphp_log);

#endif
