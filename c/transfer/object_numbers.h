/* Which objects and references a transfer contains already, counted as PHP's serializer does. */
#ifndef SVC_SHIM_OBJECT_NUMBERS_H
#define SVC_SHIM_OBJECT_NUMBERS_H

#include "compat.h"

#include <ext/standard/php_var.h>

php_serialize_data_t shim_object_numbers_begin(void);
void shim_object_numbers_end(php_serialize_data_t written);
/* Counts a value. Returns the number of an object or a reference that has been counted before; -1 if that one was
 * written as null, 0 if it is new. `is_shared`: what holds the value may be met again. */
zend_long shim_object_number(php_serialize_data_t written, zval *value, bool is_shared);
/* The object, which has been counted, is written as null. */
void shim_object_number_forget(php_serialize_data_t written, const zend_object *object);

#endif
