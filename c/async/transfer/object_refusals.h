/* Objects that cannot cross, whatever they contain. */
#ifndef SVC_SHIM_OBJECT_REFUSALS_H
#define SVC_SHIM_OBJECT_REFUSALS_H

#include "async/transfer/place.h"
#include "compat.h"

/* Whether no object of the class can be sent; an exception is then thrown. */
bool shim_object_refused(const shim_place *place, const zend_class_entry *class);
/* Throws for an exception of the object's own serialization, or for its failure without one. Returns false. */
bool shim_object_refuse(const shim_place *place, const zend_object *object);

#endif
