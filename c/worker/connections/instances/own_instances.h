/* A request's instances behind objects of Svc\per_request(). */
#ifndef SVC_SHIM_OWN_INSTANCES_H
#define SVC_SHIM_OWN_INSTANCES_H

#include "php/context/context.h"
#include "worker/connections/instances/source.h"

#include <stdbool.h>

/* Returns the running request's instance, and creates it on first use. NULL if it has thrown. The proxy is the object that
 * scripts have. */
zend_object *shim_own_instance_get(zend_object *proxy, shim_source *source);
/* Returns the running request's instance; NULL if it has none. */
zend_object *shim_own_instance_find(const zend_object *proxy);
/* Whether there are instances that are neither closed nor kept. */
bool shim_own_instances_are_open(const shim_context *context);
/* Resets or closes the most recent open instance; may run script code, and may bail out. */
void shim_own_instance_end(shim_context *context);
/* Releases the place of a closed instance. Returns the proxy, which the caller releases in a step; NULL if no instance is
 * closed. */
zend_object *shim_own_instance_forget(shim_context *context);
/* Releases a place, with its instance if that is kept: another request may use it next. Returns the proxy, which the caller
 * releases in a step; NULL if the request holds no place. */
zend_object *shim_own_instance_hand_on(shim_context *context);
void shim_own_instances_install(void);
/* From now on, the request creates no more instances, and does not use kept ones. */
void shim_own_instances_close(shim_context *context);
/* Frees the list itself. */
void shim_own_instances_free(shim_context *context);

#endif
