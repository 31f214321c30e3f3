/* Checks whether a thread executes instructions of a script. */
#ifndef SVC_SHIM_INTERRUPT_H
#define SVC_SHIM_INTERRUPT_H

/* Called on each interrupt, between two instructions of a script; may throw. NULL if it is unused. */
extern void (*shim_on_interrupt)(void);

void shim_interrupts_install(void);

#endif
