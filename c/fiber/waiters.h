/* Requests that wait for completions. */
#ifndef SVC_SHIM_WAITERS_H
#define SVC_SHIM_WAITERS_H

#include "fiber/fiber.h"

#include <stdbool.h>

typedef enum shim_waits {
    SHIM_WAITS_FOR_ALL,
    /* One is complete: nothing is waited for. */
    SHIM_WAITS_NO_MORE,
    /* Too many requests wait. */
    SHIM_WAITS_REFUSED,
} shim_waits;

/* The request waits for the completions of its set, if there are any; if one is complete, `member` says which. */
shim_waits shim_waiter_add(shim_fiber *fiber, unsigned *member);
/* It waits no more; harmless if it does not. */
void shim_waiter_remove(shim_fiber *fiber);
/* In the child of a fork(): the waits are its parent's. */
void shim_waiters_forget(void);

#endif
