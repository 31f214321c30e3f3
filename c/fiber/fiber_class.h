/* PHP's class Fiber where it affects requests. */
#ifndef SVC_SHIM_FIBER_CLASS_H
#define SVC_SHIM_FIBER_CLASS_H

void shim_fiber_class_install(void);

#endif
