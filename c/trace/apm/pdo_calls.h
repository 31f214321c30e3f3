/* Calls of PDO. */
#ifndef SVC_SHIM_PDO_CALLS_H
#define SVC_SHIM_PDO_CALLS_H

#include "trace/apm/observed.h"

extern const shim_observers shim_pdo_calls;

#endif
