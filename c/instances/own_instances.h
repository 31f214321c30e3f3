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
/* Whether there are instances that are neither closed nor kept. */
bool shim_own_instances_are_open(const shim_context *context);
/* Resets or closes the one of these that was made last; may run a script's code, and may bail out. */
void shim_own_instance_end(shim_context *context);
/* Gives the place of a closed one back. Returns the proxy, to be released by a step; NULL if none is closed. */
zend_object *shim_own_instance_forget(shim_context *context);
/* Gives a place back, with its instance if that is kept: it may be another request's next. Returns the proxy, to be
 * released by a step; NULL if there is none left. */
zend_object *shim_own_instance_hand_on(shim_context *context);
void shim_own_instances_install(void);
/* From now on, the request makes no more, and uses none that is kept. */
void shim_own_instances_close(shim_context *context);
/* The list itself. */
void shim_own_instances_free(shim_context *context);

#endif
