/* Classes that only svc instantiates. */
#ifndef SVC_SHIM_SEALED_H
#define SVC_SHIM_SEALED_H

#include "compat.h"

/* Registers a final class with these methods. `create` allocates an object; NULL if objects have no state. */
zend_class_entry *shim_sealed_class(const char *name, const zend_function_entry *methods,
                                    zend_object *(*create)(zend_class_entry *));
/* Creates an object of such a class; no other function can. */
void shim_sealed_make(zval *object, zend_class_entry *class);

#endif
