/* The functions that scripts call to wait. */
#ifndef SVC_SHIM_WAITING_H
#define SVC_SHIM_WAITING_H

#include "compat.h"

ZEND_NAMED_FUNCTION(shim_sleep);
ZEND_NAMED_FUNCTION(shim_wait_readable);
ZEND_NAMED_FUNCTION(shim_wait_writable);

#endif
