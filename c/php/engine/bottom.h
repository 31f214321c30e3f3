/* The bottom frame of a request, or of engine code that is called in the middle of a switch. */
#ifndef SVC_SHIM_BOTTOM_H
#define SVC_SHIM_BOTTOM_H

#include "compat.h"

void shim_bottom_define(zend_class_entry *class, zend_module_entry *module);
/* Initializes `frame` as the bottom frame, and makes it the current one. */
void shim_bottom_enter(zend_execute_data *frame);

#endif
