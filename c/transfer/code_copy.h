/* Functions that this thread has made from images. */
#ifndef SVC_SHIM_CODE_COPY_H
#define SVC_SHIM_CODE_COPY_H

#include "compat.h"
#include "shim.h"

/* A function as the compiler of this thread would have made it, in the memory of the thread's request. It is kept: the same
 * image with the same scope gives the same function, with what it has learned at run time. Valid until the next call;
 * closures made from it hold what they need. */
zend_op_array *shim_code_copy(shim_view image, zend_class_entry *scope);
/* The request has ended, and with it all that ran the functions. */
void shim_code_copies_free(void);

#endif
