/* The methods of the classes of Svc\per_request()'s objects. */
#ifndef SVC_SHIM_FORWARDING_H
#define SVC_SHIM_FORWARDING_H

#include "compat.h"

/* Gives the class a method for each that it has inherited, with the same parameters; all of them are `handler`. */
void shim_forwarding_define(zend_class_entry *class, zif_handler handler);
/* The method of `own` that one of these stands for; NULL if it has none. */
zend_function *shim_forwarding_target(const zend_function *method, const zend_object *own);

#endif
