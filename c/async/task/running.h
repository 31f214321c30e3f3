/* The running side of a task. */
#ifndef SVC_SHIM_RUNNING_H
#define SVC_SHIM_RUNNING_H

void shim_running_install(void);

#endif
