/* Closures that cannot run as a task. */
#ifndef SVC_SHIM_CODE_REFUSALS_H
#define SVC_SHIM_CODE_REFUSALS_H

#include "compat.h"

/* The parts of a closure. */
typedef struct shim_closure {
    /* The closure's own copy of its function. */
    zend_function *function;
    /* The class it was written in; NULL if there is none. */
    zend_class_entry *scope;
    /* The class that `static` refers to. */
    zend_class_entry *called_scope;
    zend_object *self;
} shim_closure;

shim_closure shim_closure_of(zend_object *closure);
/* Returns the function that this name refers to, from which a closure of an internal function or of a static method was
 * made; NULL if there is none. */
zend_function *shim_closure_named(zend_class_entry *scope, const zend_string *name);
/* Throws a TransferException. */
void shim_code_refuse(const char *format, ...) ZEND_ATTRIBUTE_FORMAT(printf, 1, 2);
/* Returns whether the closure is refused: a TransferException with the reason is thrown then. */
bool shim_code_refused(const shim_closure *closure);

#endif
