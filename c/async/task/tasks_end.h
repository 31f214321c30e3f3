/* The tasks of a request of classic mode. */
#ifndef SVC_SHIM_TASKS_END_H
#define SVC_SHIM_TASKS_END_H

/* Call after the script and its destructors have ended, and its output has been flushed. */
void shim_tasks_end(void);

#endif
