/* The parts of PHP's class Fiber that affect requests. */
#ifndef SVC_SHIM_FIBER_CLASS_H
#define SVC_SHIM_FIBER_CLASS_H

void shim_fiber_class_install(void);

#endif
