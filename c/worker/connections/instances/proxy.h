/* The object of Svc\per_request() that scripts have. */
#ifndef SVC_SHIM_PROXY_H
#define SVC_SHIM_PROXY_H

#include "compat.h"

#include <stdbool.h>
#include <stdint.h>

/* Turns a class that has just been declared into a class of such objects. */
void shim_proxy_class_finish(zend_class_entry *class);
bool shim_proxy_class_is(const zend_class_entry *class);

/* Creates an object of `class` whose methods and properties are those of the running request's instance of `wanted`. Copies
 * the callables; `reset` may be NULL. */
void shim_proxy_make(zval *result, zend_class_entry *class, zend_class_entry *wanted, zval *factory, zval *reset, uint32_t max);

#endif
