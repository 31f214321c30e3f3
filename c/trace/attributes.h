/* Attributes: from PHP's values to the host's. */
#ifndef SVC_SHIM_ATTRIBUTES_H
#define SVC_SHIM_ATTRIBUTES_H

#include "compat.h"
#include "shim.h"

/* Attributes for one call of the host; their texts belong to the PHP values. */
typedef struct shim_attributes {
    shim_attribute *list;
    size_t count;
} shim_attributes;

/* Takes the value of an attribute, an argument of the running function. Returns false and throws a TypeError if it is
 * neither a scalar nor a list of scalars of one type. */
bool shim_attribute_take(shim_attributes *attributes, zend_string *name, zval *value, uint32_t argument);
/* Takes an argument with any number of attributes, by name; NULL stands for none. */
bool shim_attributes_take(shim_attributes *attributes, HashTable *values, uint32_t argument);
void shim_attributes_free(shim_attributes *attributes);

#endif
