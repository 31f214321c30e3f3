/* Whether a thread executes instructions of a script. */
#ifndef SVC_SHIM_INTERRUPT_H
#define SVC_SHIM_INTERRUPT_H

void shim_interrupts_install(void);

#endif
