/* Objects in PHP's own format. */
#ifndef SVC_SHIM_OBJECT_TEXT_H
#define SVC_SHIM_OBJECT_TEXT_H

#include "compat.h"
#include "transfer/buffer.h"
#include "transfer/place.h"

#include <ext/standard/php_var.h>

/* What the objects of one transfer have in common. */
typedef struct shim_object_texts {
    /* The objects and references that have been written, by number; NULL before the first object. */
    php_serialize_data_t written;
    /* The classes and cases that the other side has been told to load; NULL likewise. */
    HashTable *told;
} shim_object_texts;

void shim_object_texts_end(shim_object_texts *objects);
/* Writes an object that is no enum case. Returns false if an exception is thrown. */
bool shim_object_write(shim_object_texts *objects, shim_buffer *out, const shim_place *place, zend_object *object);

#endif
