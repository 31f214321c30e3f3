/* The end of a stack. */
#ifndef SVC_SHIM_OVERFLOW_H
#define SVC_SHIM_OVERFLOW_H

#include <stdbool.h>

/* Call after PHP has started and before other threads start. */
void shim_overflow_install(void);
void shim_overflow_thread_start(void);
void shim_overflow_thread_stop(void);
/* After a bailout: returns whether it came from the end of a stack, and reports that as the request's error. */
bool shim_overflow_report(void);
/* Returns the end of the stack that the thread runs on, below which the protected pages begin; NULL if it is unknown. */
const char *shim_overflow_end(void);

#endif
