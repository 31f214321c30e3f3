/* The connections of an object that several requests use one after the other. */
#ifndef SVC_SHIM_APART_H
#define SVC_SHIM_APART_H

#include "compat.h"

/* Called when the running request passes the object on to a later request, which then uses it alone: sets apart every
 * connection that the request has opened and that the object refers to, directly or indirectly. */
void shim_connections_set_apart(zend_object *object);

#endif
