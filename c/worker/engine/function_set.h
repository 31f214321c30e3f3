/* Sets of PHP's functions, named in tables. */
#ifndef SVC_SHIM_FUNCTION_SET_H
#define SVC_SHIM_FUNCTION_SET_H

#include "compat.h"

#include <stdbool.h>
#include <stddef.h>

/* Functions of a class, or global ones if `class` is NULL. In lowercase; spaces separate the names. */
typedef struct shim_function_names {
    const char *class;
    const char *names;
} shim_function_names;

typedef struct shim_function_set {
    struct shim_function_key *keys;
    size_t room;
} shim_function_set;

/* Fills an empty set with the named functions that exist in this PHP. Call after PHP has started, before other threads
 * run it; the set is never freed. */
void shim_function_set_fill(shim_function_set *set, const shim_function_names *rows, size_t count);
bool shim_function_set_has(const shim_function_set *set, const zend_function *function);

#endif
