/* foreach over statements and results, which calls none of their methods. */
#ifndef SVC_SHIM_ITERATORS_H
#define SVC_SHIM_ITERATORS_H

#include "compat.h"

/* Makes the iterators of the class, and of its subclasses, take their connection. Called before any thread runs PHP. */
void shim_iterators_follow(zend_class_entry *class);
/* The same for a subclass that was linked before. */
void shim_iterators_follow_heir(zend_class_entry *class);

#endif
