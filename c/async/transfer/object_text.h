/* Objects in PHP's own format. */
#ifndef SVC_SHIM_OBJECT_TEXT_H
#define SVC_SHIM_OBJECT_TEXT_H

#include "async/transfer/buffer.h"
#include "async/transfer/place.h"
#include "compat.h"

#include <ext/standard/php_var.h>

/* State that the objects of one transfer share. */
typedef struct shim_object_texts {
    /* The objects and references that have been written, by number; NULL before the first object. */
    php_serialize_data_t written;
    /* The classes and cases that earlier texts have named for the other side to load; NULL before the first object. */
    HashTable *told;
} shim_object_texts;

void shim_object_texts_end(shim_object_texts *objects);
/* Writes an object that is not an enum case. Returns false if an exception is thrown. */
bool shim_object_write(shim_object_texts *objects, shim_buffer *out, const shim_place *place, zend_object *object);

#endif
