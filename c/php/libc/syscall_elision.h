/* System calls whose result is known. */
#ifndef SVC_SHIM_SYSCALL_ELISION_H
#define SVC_SHIM_SYSCALL_ELISION_H

void shim_syscall_elision_install(void);

#endif
