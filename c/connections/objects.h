/* The objects of connections: how they are created, looked into, and freed. */
#ifndef SVC_SHIM_OBJECTS_H
#define SVC_SHIM_OBJECTS_H

#include "compat.h"
#include "connections/connection.h"

#include <stdbool.h>

/* Has each object of the class, and of those that extend it, have a record; `class` is that of the kind itself. Before any
 * thread runs PHP. */
void shim_objects_follow(zend_class_entry *class, shim_kind kind);
/* The class also calls what is followed, for it was linked before: a class that extends one of them. */
void shim_objects_follow_heir(zend_class_entry *class);
/* Whether the object is of such a class. One that its extension has created without asking the class begins to be followed
 * here: as the request's own if it `is_new`, as nobody's otherwise. */
bool shim_object_is_followed(zend_object *object, bool is_new);
/* Gives up objects that nobody refers to, but that could not be freed while another request used their connection. */
void shim_objects_free_postponed(void);
void shim_objects_forget_postponed(void);
/* Called with each function that an object of such a class makes up for a call. Set by calls.c. */
extern void (*shim_objects_made_up)(zend_function *function);

#endif
