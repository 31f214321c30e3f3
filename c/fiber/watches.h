/* Which requests wait for which descriptors; for park.c, which wakes them. */
#ifndef SVC_SHIM_WATCHES_H
#define SVC_SHIM_WATCHES_H

#include "fiber/fiber.h"

#include <sys/epoll.h>

/* The thread's epoll, which all descriptors that are waited for are registered with. */
void shim_watches_open(int poller);
void shim_watches_close(void);
/* As close, in the child of a fork(): it must not touch what its parent waits for. */
void shim_watches_forget(void);
bool shim_watches_any(void);

/* The request waits for `events` (of poll()) on the descriptor. False: epoll cannot tell of this one (a file on disk),
 * which is always ready; or there is no memory. */
bool shim_watch(shim_fiber *fiber, int descriptor, short events);
/* It waits no more; harmless if it does not wait for a descriptor. */
void shim_unwatch(shim_fiber *fiber);
/* Its wait is over, whatever it has waited for. */
void shim_wake(shim_fiber *fiber, shim_woken why);
/* The descriptor is about to be closed: who waits for it is woken. */
void shim_watches_closed(int descriptor);
/* Wakes those who have waited for what epoll says. */
void shim_watches_wake(const struct epoll_event *event);

#endif
