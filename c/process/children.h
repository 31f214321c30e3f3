/* Processes that a request forks. */
#ifndef SVC_SHIM_CHILDREN_H
#define SVC_SHIM_CHILDREN_H

void shim_children_install(void);
/* The script has ended. In a child, this ends the process with the script's exit status; elsewhere it does nothing. */
void shim_child_end(void);

#endif
