/* Functions that this thread has made from images. */
#ifndef SVC_SHIM_CODE_COPY_H
#define SVC_SHIM_CODE_COPY_H

#include "compat.h"
#include "shim.h"

/* Returns a function as the compiler of this thread would have made it, in the memory of the thread's request. It is
 * kept: the same image with the same scope gives the same function, with the caches that it has filled at run time.
 * Valid until the next call; closures made from it hold the necessary references. */
zend_op_array *shim_code_copy(shim_view image, zend_class_entry *scope);
/* Call when the request has ended, and with it all code that ran the functions. */
void shim_code_copies_free(void);

#endif
