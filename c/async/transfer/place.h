/* The position of a value within the packed data, for the messages of refusals. */
#ifndef SVC_SHIM_PLACE_H
#define SVC_SHIM_PLACE_H

#include "compat.h"

typedef enum shim_place_kind {
    /* The value that the caller has passed and named. */
    SHIM_PLACE_ROOT,
    SHIM_PLACE_ELEMENT,
    SHIM_PLACE_PROPERTY,
    /* A value that an object's own serialization has returned: it has the place of the object. */
    SHIM_PLACE_INSIDE,
} shim_place_kind;

/* A chain of frames on the C stack, from the value outwards. */
typedef struct shim_place {
    const struct shim_place *outer;
    shim_place_kind kind;
    /* SHIM_PLACE_ROOT */
    const char *name;
    /* NULL: `index` is the key. A property's name is mangled as in its object. */
    zend_string *key;
    zend_ulong index;
    /* The array whose elements have this place as their outer one, if any. */
    const HashTable *array;
} shim_place;

/* Throws a TransferException with the place and the reason. An exception that is already thrown becomes its previous. */
void shim_place_refuse(const shim_place *place, const char *why);
/* Throws likewise, but names only the caller's value, without the position inside it. */
void shim_place_refuse_whole(const shim_place *place, const char *why);
/* Throws likewise for a value that does not fit. Returns false. */
bool shim_place_refuse_size(const shim_place *place, size_t bytes_max);
/* Whether the array is already being packed, further out. */
bool shim_place_is_within(const shim_place *place, const HashTable *array);

#endif
