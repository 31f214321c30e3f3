/* The objects and references that a transfer already contains, counted like PHP's serializer counts them. */
#ifndef SVC_SHIM_OBJECT_NUMBERS_H
#define SVC_SHIM_OBJECT_NUMBERS_H

#include "compat.h"

#include <ext/standard/basic_functions.h>
#include <ext/standard/php_var.h>

/* The state of serialize() and unserialize() calls of scripts in progress. */
typedef struct shim_script_texts {
    __typeof__(((php_basic_globals *)NULL)->serialize) serialize;
    __typeof__(((php_basic_globals *)NULL)->unserialize) unserialize;
    unsigned lock;
} shim_script_texts;

/* Lends the transfer's state, for objects that write their texts themselves: until shim_script_texts_end(), serialize()
 * of a script counts in `written`, and unserialize() in `read`, as within a call of their own. With NULL, they count
 * separately. If a fiber is suspended in between, the state stays lent, as within serialize(). */
shim_script_texts shim_script_texts_lend(php_serialize_data_t written, php_unserialize_data_t read);
void shim_script_texts_end(const shim_script_texts *before);

php_serialize_data_t shim_object_numbers_begin(void);
void shim_object_numbers_end(php_serialize_data_t written);
/* Counts a value. Returns the number of an object or a reference that has been counted before; -1 if that one was
 * written as null, 0 if it is new. `is_shared`: the container of the value may occur again. */
zend_long shim_object_number(php_serialize_data_t written, zval *value, bool is_shared);
/* Records that the counted object is written as null. */
void shim_object_number_forget(php_serialize_data_t written, const zend_object *object);

#endif
