/* Exclusive use of connections and sockets. */
#ifndef SVC_WORKER_CONNECTIONS_OWNERS_H
#define SVC_WORKER_CONNECTIONS_OWNERS_H

#include "worker/stack/stack.h"

#include <stdbool.h>
#include <sys/queue.h>

/* ---- Exclusive use of resources (ownership.c, wait_queue.c) ---- */

/* Acquisition: exclusive use of resources that several requests of a thread can reach, such as database connections.
 *
 * While a request waits inside a library, its thread runs other requests. If one of them used the same connection, it
 * would write into the middle of an exchange and read rows that belong to another request. So each such resource has one
 * owner at a time, and other requests wait for it, parked.
 *
 * A resource is in one of these states:
 *
 *      opened by a running request           free                            leased
 *      (owner != NULL)                       (owner == NULL)                 (is_leased, owner != NULL)
 *            │                                  │        ▲                      ▲          │
 *            │ end of that request,             │ first  │ end of that          │ a call   │ the call
 *            │ or it gives all it owns back     │ touch  │ request, or it       │ begins   │ returns, or
 *            ▼                                  ▼        │ gives all back       │          ▼ the request ends
 *         free                       the shared owner's ─┘                    (is_leased, owner == NULL)
 *            │
 *            │ the request that opened it passed it on to one request at a time (is_exclusive)
 *            ▼
 *      free, exclusive ──first touch──▶ (owner != NULL) ──end of that request──▶ free, exclusive
 *
 *  - A running request owns what it opens. Everything else (opened by the boot script or by a request that has ended,
 *    persistent connections) has one common owner, the shared owner: the request that first touches one of these
 *    resources owns all of them until it ends. So the order in which a request touches them does not matter.
 *  - An exclusive resource is exempt: requests that use different ones do not wait for each other.
 *  - A leased resource belongs to a request for one call, and is free otherwise. A leased resource that is passed on (a
 *    store) stays with its request until another one needs it; it is given away once its request waits for something
 *    else.
 *  - A request that needs a resource with another owner joins the thread's one queue. It receives the resource in the
 *    moment in which that becomes free, before it runs: no request overtakes it, and once it is woken by its grant, it is
 *    the owner.
 *  - The end of a request has this order: its script, shutdown functions and destructors; the cleaning of its connections,
 *    which it still owns (worker/connections/release.c); the grant to the first in the queue; the wait for its tasks.
 *
 * A task that awaits tasks of its thread waits in the same queue: they may need what it owns.
 *
 * The same queue serves two more kinds of waits: for permits, which are interchangeable (the instances of an object of
 * Svc\per_request()), and for locks on files, which php/files/locks.c keeps.
 *
 * The wait of an owner may depend on a request that waits for the owner. So a resource that is *at rest*
 * (worker/connections/at_rest.c: no exchange, result, copy or transaction is under way) may be *lent*: another request
 * owns it until it ends, or until it waits for something else while the resource is at rest and a third request needs it;
 * then it returns to the lender. Which requests a waiting owner lends to depends on the purpose of its wait:
 *
 *      the owner waits for               lends what is at rest
 *      another request of the thread     if that one waits for it, directly or through others (graph.h)
 *      its client                        always
 *      a session's lock that no request  always: the holder, and what the holder waits for, are unknown. Likewise if a
 *      of the thread holds               request of the thread holds it and waits for such a lock
 *      another such lock, or a request   if the owner has left no session state; to a request that has waited for a second,
 *      that waits for one                always
 *      tasks                             to tasks of the same request, which may be the awaited ones
 *      a pause, after it has used a      to a request that has used a store as well, if the owner has left no session
 *      store                             state: both may poll for a lock there
 *      anything else, and all above      to a request that has waited for a second, if the owner has left no session state:
 *                                        the two may wait for each other through other programs
 *
 * Session state is what the owner has changed in a session and other requests must not see (keeps_state). A resource that is
 * not at rest is not lent; the wait of one request is refused instead (graph.h).
 *
 * Invariants.
 *  1. A resource has at most one owner, a request that has begun and not ended: the end of a request releases everything,
 *     however it ends (shim_owned_release_all), and so does the loss of its stack.
 *  2. Whenever a script's code runs, no free resource and no free permit has a waiter, and no request is in a deadlock that
 *     could be resolved.
 *  3. A waiter is in the queue exactly while it is parked. Its wait ends by its grant, its refusal, the destruction of the
 *     resource, its time limit or its cancellation, whichever comes first.
 *  4. A resource is lent only once at a time: the borrower does not lend it on, but returns it.
 *  5. This code does not allocate memory, poll or throw, and does not know what the resources are.
 *
 * All state is thread-local, as fibers are. */

/* A resource that one request at a time uses. Embedded in the user's record of it; initially all zero, except
 * `is_leased`. */
typedef struct shim_owned {
    /* The running request that has opened it, or that leases it. */
    shim_fiber *owner;
    bool is_leased;
    bool is_exclusive;
    /* A lease that lasts until another request needs the resource. */
    bool is_passed_on;
    /* Whether it is at rest is unknown: its bytes are of a protocol that svc does not follow. */
    bool is_unknown;
    /* The owner has borrowed it from `lender`, or from the shared owner if that is NULL. */
    bool is_lent;
    shim_fiber *lender;
    /* The sockets that calls on it have used (sockets.c). */
    LIST_HEAD(, shim_note) sockets;
    /* The number of calls on it in progress, on any stack (uses.c). */
    unsigned uses;
    /* A bailout has skipped the rest of a call. */
    bool is_broken;
    /* Among the resources with an owner. */
    LIST_ENTRY(shim_owned) link;
} shim_owned;

/* Permits that requests hold. Embedded in the object that keeps the list of holders. */
typedef struct shim_permits {
    uint32_t max;
    uint32_t in_use;
} shim_permits;

typedef struct shim_file_lock {
    uint64_t device;
    uint64_t inode;
    /* The session extension takes it. */
    bool is_session;
} shim_file_lock;

typedef enum shim_acquisition {
    /* The request has the resource. */
    SHIM_ACQUIRED = 0,
    /* The wait would be a deadlock, and the request is the youngest one whose refusal resolves it. */
    SHIM_ACQUIRE_DEADLOCK,
    /* It would have to wait, but cannot without blocking its thread, on which the owner runs. */
    SHIM_ACQUIRE_WOULD_BLOCK,
    /* The request may no longer wait: its time limit has expired, or it is a cancelled task. */
    SHIM_ACQUIRE_EXPIRED,
    /* The resource was destroyed. */
    SHIM_ACQUIRE_DESTROYED,
} shim_acquisition;

/* Waits until the running request may use the resource, and makes the request its owner. The caller keeps the resource's
 * memory in place until this returns. */
shim_acquisition shim_owned_acquire(shim_owned *resource);
/* Waits for a permit. The request must not wait again before shim_permit_is_held reports that it holds the permit. */
shim_acquisition shim_permit_acquire(shim_permits *permits);
/* Releases a permit to its first waiter. */
void shim_permit_release(shim_permits *permits);
/* Whether the request holds one of these permits. */
extern bool (*shim_permit_is_held)(const shim_fiber *fiber, const shim_permits *permits);
/* Pauses before the next attempt at a lock that is not free. A completion, unless NULL, ends the pause, too. */
shim_acquisition shim_file_lock_pause(const shim_file_lock *lock, bool may_be_refused, int64_t *pause,
                                  shim_completion *completion);
/* The tasks that a task awaits, some of which may run on its thread. */
typedef struct shim_awaited_tasks {
    shim_task *const *list;
    size_t count;
    /* One settled task may not suffice: it may have failed. */
    bool needs_all;
} shim_awaited_tasks;

/* Parks until tasks are settled. SHIM_WOKEN_BY_REQUEST is a deadlock: they wait for the running task, directly or
 * indirectly. */
shim_woken_by shim_tasks_await(const shim_wait_set *set, const shim_awaited_tasks *tasks);
/* Whether the request holds the lock, alone or shared. With NULL, whether any request of the thread does. */
extern bool (*shim_file_lock_is_held)(const shim_fiber *fiber, const shim_file_lock *lock);
/* Throws the error of a refused wait. */
typedef void shim_deadlock_thrower(const char *message);
extern shim_deadlock_thrower *shim_deadlock_throw;

/* Questions about resources; set by worker/connections/at_rest.c. `resource` is one that the request owns, or the
 * placeholder for all connections of the shared owner. */
typedef struct shim_owned_callbacks {
    /* Whether another request may use it now. */
    bool (*is_at_rest)(const shim_owned *resource, const shim_fiber *owner);
    /* Whether the owner has left state on it that other requests must not see, even at rest. */
    bool (*keeps_state)(const shim_owned *resource, const shim_fiber *owner);
    /* The owner has lost it, and has nothing left to clean up on it. */
    void (*is_left)(const shim_owned *resource, const shim_fiber *owner);
} shim_owned_callbacks;
extern shim_owned_callbacks shim_owned_callback;
/* Whether the running request may use it without waiting. Does not change the owner. */
bool shim_owned_is_free(const shim_owned *resource);
/* Releases it (the lease ended, or it turned out to be shared) and wakes its next waiter. */
void shim_owned_release(shim_owned *resource);
/* Removes a resource that is about to be destroyed; its waiters get SHIM_ACQUIRE_DESTROYED. */
void shim_owned_forget(shim_owned *resource);
/* Releases everything that the request owns. */
void shim_owned_release_all(const shim_fiber *fiber);
/* The same, but keeps leases, whose calls are still in progress. */
void shim_owned_release_unleased(const shim_fiber *fiber);
/* Forgets all owners and waiters: the thread has a new worker, or is a forked child. */
void shim_wait_queue_forget(void);
void shim_wait_queue_install(void);

/* ---- Owners, without regard to waiters (ownership.c) ---- */

/* Returns the request that has the resource, alone or as the shared owner; NULL if it is free. */
shim_fiber *shim_owner_of(const shim_owned *resource);
/* Makes the request the individual owner of a resource that had none. */
void shim_owner_set(shim_owned *resource, shim_fiber *fiber);
/* Excludes a resource that the running request has opened from those of the shared owner, once it is free. */
void shim_owner_set_exclusive(shim_owned *resource);
/* Whether the request has opened anything that would pass to the shared owner. */
bool shim_owner_has_opened(const shim_fiber *fiber);
/* Returns the placeholder for all resources with a shared owner. */
shim_owned *shim_owner_shared(void);
/* Whether the shared owner has used something of unknown state. */
bool shim_owner_shared_is_unknown(void);
void shim_owner_shared_set_unknown(bool is_unknown);
/* Whether the resource, or the shared ownership that it is part of, is lent. */
bool shim_owner_is_borrower(const shim_owned *resource);

/* The remaining functions are for wait_queue.c.
 *
 * Gives a free resource to the request, as the shared owner unless the resource is leased or exclusive. */
void shim_owner_grant(shim_owned *resource, shim_fiber *fiber);
/* Notes that the owner uses the resource. */
void shim_owner_note_use(const shim_owned *resource);
/* Lends the resource, which is at rest. */
void shim_owner_lend(shim_owned *resource, shim_fiber *owner, shim_fiber *borrower);
/* Takes the resource from its owner. A borrowed one returns to its lender, unless the lender has ended. */
void shim_owner_take_back(shim_owned *resource);
/* Takes the resource from its owner and from its lender. */
void shim_owner_remove(shim_owned *resource);
/* Takes all resources from a request that ends, leases only if `with_leases`. Returns whether there were any. */
bool shim_owner_end(const shim_fiber *fiber, bool with_leases);
/* Takes all resources from their owners. */
void shim_owners_forget(void);

/* ---- Sockets (sockets.c) ---- */

/* Ownership of sockets: the safety net below the owners of connections.
 *
 * Owners are found through the objects and resources that PHP calls connections. Everything that reaches a socket in
 * another way (a stream of PHP itself, an unknown extension, an overlooked call) is stopped here, where its bytes pass
 * through libc.
 *
 * What it guarantees. A socket that a connection uses has the owner of the connection; connections that share one
 * (persistent ones, however a script names them) have one common owner. Any other stream socket belongs to the running
 * request that connected it, or used it first, until that request ends; the rest belong to the shared owner (ownership.c),
 * unless they are exclusive. A call of a known library that sends or receives waits until its request owns the socket,
 * inside calls on connections, too. So between the first byte that a request sends on a socket and the end of the
 * request, no other request of the thread sends or receives on that socket: it may wait for long, but it never receives
 * data that was meant for another request.
 *
 * What it does not guarantee. It sees calls of the libraries in worker/hooks/callers.c only: not those of unlisted
 * extensions, and not those of OpenSSL. For PHP's own TLS streams, worker/connections/streams.c asks before OpenSSL is
 * called. It does not know protocols: the next request finds what an earlier one left unread on a stream. A hook cannot
 * throw: where the wait would be a deadlock, or cannot begin, the call fails as if the connection were lost. Datagram
 * sockets, listening sockets and pipes have no owner. */

/* The running request, or the boot script, has connected the socket. */
void shim_socket_connected(int descriptor);
/* Called before the running request sends or receives: waits until it owns the socket. Returns false if the call has to
 * fail, with errno set. Otherwise keeps errno. */
bool shim_socket_take(int descriptor);
/* Applies shim_owner_set_exclusive to a connection and its sockets, or to a stream's socket. */
void shim_socket_set_exclusive(shim_owned *connection);
void shim_socket_set_stream_exclusive(int descriptor);
/* Releases the connection (shim_owned_release) unless it is passed on, and releases its shared sockets. */
void shim_socket_release(shim_owned *connection);
/* Whether another connection uses one of its sockets, too. */
bool shim_socket_is_shared(const shim_owned *connection);
/* Whether the running request could use the socket without waiting. */
bool shim_socket_is_free(int descriptor);
/* Forgets the socket of a closed descriptor; its waiters fail. */
void shim_socket_closed(int descriptor);
/* Shuts down the sockets of a connection: its next user finds the connection lost. */
void shim_socket_shut_down(const shim_owned *connection);
/* Separates a connection from its sockets before it is destroyed. */
void shim_socket_detach(shim_owned *connection);
/* Two connections have turned out to be the same: `to` gets the sockets of `from`. */
void shim_socket_merge(shim_owned *from, shim_owned *to);
void shim_sockets_forget(void);

/* ---- Calls in progress (uses.c) ---- */

/* Uses: calls in progress, on the stacks that make them.
 *
 * A library may call a script in the middle of a call: PDO::FETCH_FUNC, a function of SQLite, a callback of curl, a filter
 * of a stream. If that runs in one of the script's fibers, it may suspend itself there, and the call stays on the stack of
 * the fiber. The fiber may be resumed, dropped or destroyed at any later time: by its request, at the end of that request
 * (worker/stack/left_fibers.c), or by any request if the boot script has begun it. Fibers may end in another order than
 * they began in. So a call in progress is not a property of the request: it is found by the running stack.
 *
 * Invariants.
 *  1. A use is on the list of the stack on which it began, which is found by the stack's context.
 *  2. It ends by the first of these: its end is called, on the same stack; an outer use of that stack ends, or a bailout
 *     has returned to above its position, which skipped its end; its stack is freed.
 *  3. Its memory is not on the stack, so that it can be read after a bailout has skipped its end.
 *  4. The end of a use does not depend on the running request. */

typedef struct shim_use shim_use;

/* Begins a call on the resource on the running stack; NULL stands for a call that concerns no such resource, made inside
 * one that does. Returns NULL if out of memory. */
shim_use *shim_use_begin(shim_owned *resource);
/* Ends the use, on the same stack. */
void shim_use_end(shim_use *use);
/* Called when a use of a resource has ended in any way: may free the resource. Set by worker/connections/calls.c. */
extern void (*shim_use_is_over)(shim_owned *resource);
/* Returns the resource of the innermost call on the running stack; NULL if there is none. */
shim_owned *shim_use_here(void);
/* Ends the uses on the running stack whose ends bailouts have skipped. */
void shim_uses_recover(void);
/* Ends all uses of the thread, none of whose stacks will run again. */
void shim_uses_forget(void);
/* Reserves a slot in the contexts of stacks. Returns false if PHP has none left. Called before any thread runs PHP. */
bool shim_uses_install(void);
/* Returns the number of that slot; functions have a slot of the same number. */
int shim_uses_handle(void);

/* ---- Locks on files (file_locks.c) ---- */

/* Call when the request ends. If it has ended by a bailout, its files stay open, and the flock() locks that it still
 * holds are released; otherwise they belong to the objects that it has left behind. */
void shim_locks_end(const shim_fiber *holder, bool give_back);
void shim_locks_stop(void);
/* Whether a parked request waits for a lock on the descriptor. */
bool shim_is_being_locked(int descriptor);
void shim_locks_install(void);

#endif
