/* Requests that wait for descriptors; used by park.c, which wakes them. */
#ifndef SVC_SHIM_WATCHES_H
#define SVC_SHIM_WATCHES_H

#include "worker/stack/fiber.h"

#include <sys/epoll.h>

/* Sets the thread's epoll descriptor, at which all watched descriptors are registered. */
void shim_watches_open(int poller);
void shim_watches_close(void);
/* Closes in the child of a fork(), without changing the waits of its parent. */
void shim_watches_forget(void);
bool shim_watches_any(void);

typedef enum shim_watched {
    SHIM_WATCHED,
    /* There is no wait: the descriptor is ready, as files that epoll does not support (those on disk) always are. */
    SHIM_WATCH_READY,
    /* The descriptor is not open. */
    SHIM_WATCH_CLOSED,
    /* Out of memory. */
    SHIM_WATCH_FAILED,
} shim_watched;

/* Makes the request wait for the events of the watch. */
shim_watched shim_watch_add(shim_fiber *fiber, shim_watch *watch);
/* Stops waiting; harmless if there is no wait. */
void shim_watch_remove(shim_watch *watch);
/* Whether a request waits for the descriptor in a call that continues to use it. */
bool shim_watches_use(int descriptor);
/* Call before the descriptor is closed: wakes the requests that wait for it. */
void shim_watches_closed(int descriptor);
/* Wakes the requests that wait for the reported events. */
void shim_watches_wake(const struct epoll_event *event);

#endif
