/* Classes of which only svc makes objects. */
#ifndef SVC_SHIM_SEALED_H
#define SVC_SHIM_SEALED_H

#include "compat.h"

/* Registers a final class with these methods. `create` allocates an object; NULL if it has no state. */
zend_class_entry *shim_sealed_class(const char *name, const zend_function_entry *methods,
                                    zend_object *(*create)(zend_class_entry *));
/* The only way to an object of such a class. */
void shim_sealed_make(zval *object, zend_class_entry *class);

#endif
