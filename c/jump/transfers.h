/* The transfer by libcurl that a request waits in. */
#ifndef SVC_SHIM_TRANSFERS_H
#define SVC_SHIM_TRANSFERS_H

/* Returns the transfer that runs on this thread, which is none afterwards; NULL if there was none. */
void *shim_transfer_suspend(void);
void shim_transfer_resume(void *suspended);

#endif
