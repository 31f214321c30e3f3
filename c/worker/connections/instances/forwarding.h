/* The methods of the classes of Svc\per_request()'s objects. */
#ifndef SVC_SHIM_FORWARDING_H
#define SVC_SHIM_FORWARDING_H

#include "compat.h"

/* Replaces each method that the class has inherited, except static ones, constructors and destructors, by one with the same
 * parameters and `handler`. */
void shim_forwarding_define(zend_class_entry *class, zif_handler handler);
/* Returns the method of `own` that such a method forwards to; NULL if there is none. */
zend_function *shim_forwarding_target(const zend_function *method, const zend_object *own);

#endif
