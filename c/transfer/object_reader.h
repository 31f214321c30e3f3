/* Objects on the other side. */
#ifndef SVC_SHIM_OBJECT_READER_H
#define SVC_SHIM_OBJECT_READER_H

#include "compat.h"
#include "transfer/reader.h"

#include <ext/standard/php_var.h>

/* The case of an enum, which belongs to its class; NULL with an exception. May run autoloaders. */
zend_object *shim_object_load_case(shim_view class_name, shim_view name);
/* Reads what shim_object_write() has written. `objects` are those read before; NULL before the first one. Returns false if
 * an exception is thrown. May run a script's code. */
bool shim_object_read(shim_reader *in, php_unserialize_data_t *objects, zval *value);
/* Calls __unserialize and __wakeup of all that have them, unless an exception is thrown already, and forgets them.
 * Returns false if an exception is thrown. */
bool shim_objects_end(php_unserialize_data_t objects);

#endif
