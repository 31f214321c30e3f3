/* Objects on the receiving side. */
#ifndef SVC_SHIM_OBJECT_READER_H
#define SVC_SHIM_OBJECT_READER_H

#include "async/transfer/reader.h"
#include "compat.h"

#include <ext/standard/php_var.h>

/* Returns the case of an enum, which belongs to its class; NULL with an exception. May run autoloaders. */
zend_object *shim_object_load_case(shim_view class_name, shim_view name);
/* Reads an object that shim_object_write() has written. `objects` are the previous ones; NULL before the first one.
 * Returns false if an exception is thrown. May run script code. */
bool shim_object_read(shim_reader *in, php_unserialize_data_t *objects, zval *value);
/* Calls __unserialize and __wakeup of all objects that have them, unless an exception is already thrown, and frees the
 * list. Returns false if an exception is thrown. */
bool shim_objects_end(php_unserialize_data_t objects);

#endif
