/* The connections of an object that several requests use one after the other. */
#ifndef SVC_SHIM_APART_H
#define SVC_SHIM_APART_H

#include "compat.h"

/* The running request hands the object on to a later one, which has it alone: whatever connection the request has opened
 * that the object refers to, directly or through others, is apart from those that have a joint owner. */
void shim_connections_set_apart(zend_object *object);

#endif
