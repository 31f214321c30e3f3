/* The end of a stack. */
#ifndef SVC_SHIM_OVERFLOW_H
#define SVC_SHIM_OVERFLOW_H

#include <stdbool.h>

/* After PHP has started, before other threads start. */
void shim_overflow_install(void);
void shim_overflow_thread_start(void);
void shim_overflow_thread_stop(void);
/* After a bailout: whether it came from the end of a stack; the request is then told so. */
bool shim_overflow_report(void);
/* The end of the stack that the thread runs on: protected pages begin below it. NULL if it is not known. */
const char *shim_overflow_end(void);

#endif
