/* Objects of which each request has an instance. */
#ifndef SVC_WORKER_CONNECTIONS_INSTANCES_H
#define SVC_WORKER_CONNECTIONS_INSTANCES_H

#include "compat.h"
#include "php/context/context.h"
#include "worker/connections/owners/owners.h"

/* ---- The methods of the classes of Svc\per_request()'s objects (forwarding.c) ---- */

/* Replaces each method that the class has inherited, except static ones, constructors and destructors, by one with the same
 * parameters and `handler`. */
void shim_forwarding_define(zend_class_entry *class, zif_handler handler);
/* Returns the method of `own` that such a method forwards to; NULL if there is none. */
zend_function *shim_forwarding_target(const zend_function *method, const zend_object *own);

/* ---- A request's instances behind objects of Svc\per_request() (own_instances.c) ---- */

/* The instances behind one object of Svc\per_request(); belongs to the object, and so to its thread.
 *
 *   none ──first use──▶ in use ──end of the request, reset() is true──▶ idle ──first use──▶ in use
 *                          └───────otherwise: closed
 *
 * Invariant. The instances in use and the idle ones together never exceed the number of permits. Requests wait for a permit
 * in the queue of their thread (worker/connections/owners/wait_queue.c). */
typedef struct shim_instance_pool {
    /* The handlers of the object, through which the pool is found. */
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
    shim_permits permits;
    zval *idle;
    uint32_t idle_count;
} shim_instance_pool;

/* Returns the running request's instance, and creates it on first use. NULL if it has thrown. The proxy is the object that
 * scripts have. */
zend_object *shim_own_instance_get(zend_object *proxy, shim_instance_pool *pool);
/* Returns the running request's instance; NULL if it has none. */
zend_object *shim_own_instance_find(const zend_object *proxy);
/* Whether there are instances that are neither closed nor kept. */
bool shim_own_instances_are_open(const shim_context *context);
/* Resets or closes the most recent open instance; may run script code, and may bail out. */
void shim_own_instance_end(shim_context *context);
/* Releases the permit of a closed instance. Returns the proxy, which the caller releases in a step; NULL if no instance is
 * closed. */
zend_object *shim_own_instance_forget(shim_context *context);
/* Releases a permit, with its instance if that is kept: another request may use it next. Returns the proxy, which the caller
 * releases in a step; NULL if the request holds no permit. */
zend_object *shim_own_instance_hand_on(shim_context *context);
void shim_own_instances_install(void);
/* From now on, the request creates no more instances, and does not use kept ones. */
void shim_own_instances_close(shim_context *context);
/* Frees the list itself. */
void shim_own_instances_free(shim_context *context);

/* ---- Svc\per_request() (per_request.c) ---- */

extern const zend_function_entry shim_per_request_functions[];

/* ---- The object of Svc\per_request() that scripts have (proxy.c) ---- */

/* Turns a class that has just been declared into a class of such objects. */
void shim_proxy_class_finish(zend_class_entry *class);
bool shim_proxy_class_is(const zend_class_entry *class);

/* Creates an object of `class` whose methods and properties are those of the running request's instance of `wanted`. Copies
 * the callables; `reset` may be NULL. */
void shim_proxy_make(zval *result, zend_class_entry *class, zend_class_entry *wanted, zval *factory, zval *reset,
                     uint32_t max);

#endif
