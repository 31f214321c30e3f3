/* Processes that a request forks. */
#ifndef SVC_SHIM_CHILDREN_H
#define SVC_SHIM_CHILDREN_H

void shim_children_install(void);
/* Call after the script has ended. In a child, ends the process with the script's exit status; elsewhere does nothing. */
void shim_child_end(void);

#endif
