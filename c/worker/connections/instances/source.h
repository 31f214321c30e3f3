/* The pool of instances behind an object that has one for each request. */
#ifndef SVC_SHIM_SOURCE_H
#define SVC_SHIM_SOURCE_H

#include "compat.h"
#include "worker/connections/owners/turns.h"

#include <stdbool.h>
#include <stdint.h>

/* The instances behind one object of Svc\per_request(); belongs to the object, and so to its thread.
 *
 *   none ──first use──▶ in use ──end of the request, reset() is true──▶ idle ──first use──▶ in use
 *                          └───────otherwise: closed
 *
 * Invariant. The instances in use and the idle ones together never exceed the number of places. Requests wait for a place
 * in the queue of their thread (worker/connections/owners/turns.h). */
typedef struct shim_source {
    /* The handlers of the object, through which the source is found. */
    zend_object_handlers handlers;
    /* The handlers of its class. */
    const zend_object_handlers *real;
    /* The class or interface of every instance. */
    zend_class_entry *class;
    /* The instance's properties as last listed for the engine; NULL if never. */
    zend_array *properties;
    zval factory;
    /* Undefined if instances are not reused. */
    zval reset;
    shim_places places;
    zval *idle;
    uint32_t idle_count;
} shim_source;

/* Takes a place for an instance, and waits for it if necessary. Fills `instance` with an idle one, or with undefined if the
 * caller has to create one. Returns false if it has thrown. */
bool shim_source_take(shim_source *source, zval *instance);
/* Releases the place, with a reusable instance or undefined. Runs no script code. */
void shim_source_give_back(shim_source *source, zval *instance);

#endif
