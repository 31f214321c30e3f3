/* Svc\Request. */
#ifndef SVC_SHIM_REQUEST_OBJECT_H
#define SVC_SHIM_REQUEST_OBJECT_H

void shim_request_class_register(void);

#endif
