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

typedef enum shim_watched {
    SHIM_WATCHED,
    /* Nothing is waited for: the descriptor is ready, as what epoll does not take (a file on disk) always is. */
    SHIM_WATCH_READY,
    /* There is no such descriptor. */
    SHIM_WATCH_CLOSED,
    /* There is no memory. */
    SHIM_WATCH_FAILED,
} shim_watched;

/* The request waits for what the watch says. */
shim_watched shim_watch_add(shim_fiber *fiber, shim_watch *watch);
/* It waits no more; harmless if it does not. */
void shim_watch_remove(shim_watch *watch);
/* The descriptor is about to be closed: who waits for it is woken. */
void shim_watches_closed(int descriptor);
/* Wakes those who have waited for what epoll says. */
void shim_watches_wake(const struct epoll_event *event);

#endif
