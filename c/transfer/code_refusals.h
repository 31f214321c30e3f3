/* Closures that cannot run as a task. */
#ifndef SVC_SHIM_CODE_REFUSALS_H
#define SVC_SHIM_CODE_REFUSALS_H

#include "compat.h"

/* A closure, taken apart. */
typedef struct shim_closure {
    /* The closure's own copy of its function. */
    zend_function *function;
    /* The class it was written in; NULL if it was written in none. */
    zend_class_entry *scope;
    /* What `static` means in it. */
    zend_class_entry *called_scope;
    zend_object *self;
} shim_closure;

shim_closure shim_closure_of(zend_object *closure);
/* The function that a closure of an internal function, or of a static method, was made from, as its name leads to it; NULL
 * if there is none. */
zend_function *shim_closure_named(zend_class_entry *scope, const zend_string *name);
/* Throws a TransferException. */
void shim_code_refuse(const char *format, ...) ZEND_ATTRIBUTE_FORMAT(printf, 1, 2);
/* Returns whether the closure is refused: a TransferException is thrown, which says why. */
bool shim_code_refused(const shim_closure *closure);

#endif
