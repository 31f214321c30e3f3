/* The instances that a request has of objects of Svc\per_request(). */
#ifndef SVC_SHIM_OWN_INSTANCES_H
#define SVC_SHIM_OWN_INSTANCES_H

#include "context/context.h"
#include "instances/source.h"

#include <stdbool.h>

/* The instance of the running request; makes one on first use. NULL if it has thrown. The proxy is the object that
 * scripts have. */
zend_object *shim_own_instance_get(zend_object *proxy, shim_source *source);
/* The instance, if the running request has one. */
zend_object *shim_own_instance_find(const zend_object *proxy);
bool shim_own_instances_hold(const shim_context *context);
/* Resets or closes the one that was made last; may run a script's code, and may bail out. */
void shim_own_instance_end(shim_context *context);
/* Gives its place back; call after shim_own_instance_end, however it has ended. Returns the proxy, to be released by a
 * step. */
zend_object *shim_own_instance_forget(shim_context *context);
/* From now on, the request makes no more. */
void shim_own_instances_close(shim_context *context);
/* The list itself. */
void shim_own_instances_free(shim_context *context);

#endif
