/* Where the instances of an object come from that has one for each request. */
#ifndef SVC_SHIM_SOURCE_H
#define SVC_SHIM_SOURCE_H

#include "compat.h"
#include "owners/turns.h"

#include <stdbool.h>
#include <stdint.h>

/* The instances behind one object of Svc\per_request(); belongs to the object, and so to its thread.
 *
 *   none ──first use──▶ in use ──end of the request, reset() is true──▶ idle ──first use──▶ in use
 *                          └───────otherwise: closed
 *
 * Invariant. At most as many instances are in use or idle as there are places. Requests wait for a place in the queue of
 * their thread (owners/turns.h). */
typedef struct shim_source {
    /* Of the object; this is how the source is found. */
    zend_object_handlers handlers;
    /* Those of its class. */
    const zend_object_handlers *real;
    /* What an instance has to be. */
    zend_class_entry *class;
    /* The properties of an instance, as somebody has asked for them last; NULL if nobody has. */
    zend_array *properties;
    zval factory;
    /* Undefined if instances are not used again. */
    zval reset;
    shim_places places;
    zval *idle;
    uint32_t idle_count;
} shim_source;

/* Takes a place for an instance, and waits for it if need be. Fills `instance` with one that is idle, or with undefined if
 * the caller is to make one. Returns false if it has thrown. */
bool shim_source_take(shim_source *source, zval *instance);
/* Gives the place back, with an instance that can be used again, or undefined. Runs no code of scripts. */
void shim_source_give_back(shim_source *source, zval *instance);

#endif
