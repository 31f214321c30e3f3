/* The file mode mask and the working directory. */
#ifndef SVC_SHIM_UMASK_H
#define SVC_SHIM_UMASK_H

#include <stdbool.h>
#include <sys/types.h>

void shim_umask_install(void);
/* Whether the system lets each thread have its own umask. */
bool shim_has_own_umask(void);
/* Returns the mask that all threads share if they have none of their own. */
mode_t shim_shared_umask(void);
void shim_umask_thread_start(void);

#endif
