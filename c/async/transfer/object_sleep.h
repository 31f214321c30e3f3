/* Objects with __sleep(). */
#ifndef SVC_SHIM_OBJECT_SLEEP_H
#define SVC_SHIM_OBJECT_SLEEP_H

#include "compat.h"

/* Calls __sleep(), and returns the named properties; the caller releases them. NULL, with or without an exception, if
 * it has returned none: the object is then null, as in serialize(). */
HashTable *shim_object_sleep(zend_object *object, zend_function *sleep);

#endif
