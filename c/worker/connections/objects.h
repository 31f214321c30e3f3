/* Creation, access and destruction of the objects of connections. */
#ifndef SVC_SHIM_OBJECTS_H
#define SVC_SHIM_OBJECTS_H

#include "compat.h"
#include "worker/connections/connection.h"

#include <stdbool.h>

/* Gives each object of the class, and of its subclasses, a record; `class` is the class of the kind itself. Called before
 * any thread runs PHP. */
void shim_objects_follow(zend_class_entry *class, shim_kind kind);
/* The same for a subclass that was linked before, and so has inherited PHP's functions. */
void shim_objects_follow_heir(zend_class_entry *class);
/* Whether the object is of such a class. An object that its extension has created without calling the class's function gets
 * its record here: as the request's if `is_new`, as a free one otherwise. */
bool shim_object_is_followed(zend_object *object, bool is_new);
/* Releases unreferenced objects whose release was postponed because another request used their connection. */
void shim_objects_free_postponed(void);
void shim_objects_forget_postponed(void);
/* Called with each function that an object of such a class creates for a call. Set by calls.c. */
extern void (*shim_objects_made_up)(zend_function *function);

#endif
