/* The transfer by libcurl that a request waits in. */
#ifndef SVC_SHIM_TRANSFERS_H
#define SVC_SHIM_TRANSFERS_H

/* Returns the transfer that runs on this thread and clears it; NULL if none was running. */
void *shim_transfer_suspend(void);
void shim_transfer_resume(void *suspended);

/* An easy handle in a multi handle, as libcurl knows them. */
typedef struct shim_transfer_pair {
    void *many;
    void *handle;
} shim_transfer_pair;

/* Returns the pair of the last call of curl_multi_add_handle() on this thread. */
shim_transfer_pair shim_transfer_last_added(void);
/* Ends the transfer, unless it has ended by itself. For libcurl, the easy handle is no longer in the multi handle; for
 * PHP, it stays there until a script removes it: the multi handle has a message that the transfer was aborted. May
 * wait; runs no script code. */
void shim_transfer_abandon(shim_transfer_pair pair);

#endif
