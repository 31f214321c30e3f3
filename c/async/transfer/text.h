/* PHP's format for values, piece by piece, up to a bound. */
#ifndef SVC_SHIM_TEXT_H
#define SVC_SHIM_TEXT_H

#include "async/transfer/buffer.h"
#include "async/transfer/place.h"
#include "compat.h"

typedef struct shim_text {
    shim_buffer *out;
    /* The names that the other side has to load for this text, and all names that earlier texts have listed. */
    shim_buffer names;
    HashTable *told;
} shim_text;

/* All functions return false, with an exception that names the place, if the bound is reached. */
bool shim_text_put(shim_text *text, const shim_place *place, const char *bytes, size_t length);
bool shim_text_put_literal(shim_text *text, const shim_place *place, const char *literal);
/* Writes `before`, the number, and `after`; both strings are short. */
bool shim_text_put_number(shim_text *text, const shim_place *place, const char *before, zend_long number, const char *after);
bool shim_text_put_string(shim_text *text, const shim_place *place, const zend_string *string);
/* Writes all bits, whatever serialize_precision is; of a NAN only that it is one. */
bool shim_text_put_float(shim_text *text, const shim_place *place, double number);
bool shim_text_put_key(shim_text *text, const shim_place *place, const zend_string *key, zend_ulong index);
/* Writes `letter` (such as "O:"), the length and the name of a class. Tells the other side to load it. */
bool shim_text_put_class(shim_text *text, const shim_place *place, const char *letter, zend_string *name);
/* Writes the case of an enum. Tells the other side to load it. */
bool shim_text_put_case(shim_text *text, const shim_place *place, zend_object *object);

#endif
