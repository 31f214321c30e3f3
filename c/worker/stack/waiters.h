/* Requests that wait for completions. */
#ifndef SVC_SHIM_WAITERS_H
#define SVC_SHIM_WAITERS_H

#include "worker/stack/fiber.h"

#include <stdbool.h>

typedef enum shim_waits {
    SHIM_WAITS_FOR_ALL,
    /* One of the completions is complete, so there is no wait. */
    SHIM_WAITS_NO_MORE,
    /* Out of memory. */
    SHIM_WAITS_REFUSED,
} shim_waits;

/* Starts waiting for the completions of the request's set, if there are any. If one is already complete, `member` is
 * its index. */
shim_waits shim_waiter_add(shim_fiber *fiber, unsigned *member);
/* Stops waiting; harmless if the request is not waiting. */
void shim_waiter_remove(shim_fiber *fiber);
/* Reserves a number for a thread that blocks; its notifications wake no request. Returns false if out of memory. */
bool shim_waiter_reserve(uint32_t *number);
void shim_waiter_release(uint32_t number);
/* The thread waits no more: frees the list. */
void shim_waiters_close(void);
/* Call in the child of a fork(): the waits belong to its parent. */
void shim_waiters_forget(void);

#endif
