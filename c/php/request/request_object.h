/* Svc\Request. */
#ifndef SVC_SHIM_REQUEST_OBJECT_H
#define SVC_SHIM_REQUEST_OBJECT_H

#include "php/context/context.h"

/* The request ends: detaches its object from it. */
void shim_object_forget(shim_context *context);
void shim_request_class_register(void);

#endif
