/* The tasks of a request of classic mode. */
#ifndef SVC_SHIM_TASKS_END_H
#define SVC_SHIM_TASKS_END_H

/* The script has ended, with its destructors, and its output is flushed. */
void shim_tasks_end(void);

#endif
