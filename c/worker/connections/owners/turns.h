/* Turns: exclusive use of things that several requests of a thread can reach, such as database connections.
 *
 * While a request waits inside a library, its thread runs other requests. If one of them used the same connection, it
 * would write into the middle of an exchange and read rows that belong to another request. So each such thing has one owner
 * at a time, and other requests wait for it, parked.
 *
 * A thing is in one of these states:
 *
 *      opened by a running request           free                            leased
 *      (owner != NULL)                       (owner == NULL)                 (is_leased, owner != NULL)
 *            │                                  │        ▲                      ▲          │
 *            │ end of that request,             │ first  │ end of that          │ a call   │ the call
 *            │ or it gives all it owns back     │ touch  │ request, or it       │ begins   │ returns, or
 *            ▼                                  ▼        │ gives all back       │          ▼ the request ends
 *         free                        the joint owner's ─┘                    (is_leased, owner == NULL)
 *            │
 *            │ the request that opened it passed it on to one request at a time (is_apart)
 *            ▼
 *      free, apart ──first touch──▶ (owner != NULL) ──end of that request──▶ free, apart
 *
 *  - A running request owns what it opens. Everything else (opened by the boot script or by a request that has ended,
 *    persistent connections) has one common owner, the joint owner: the request that first touches one of these things owns
 *    all of them until it ends. So the order in which a request touches them does not matter.
 *  - A thing that is apart is exempt: requests that use different ones do not wait for each other.
 *  - A leased thing belongs to a request for one call, and is free otherwise. A leased thing that is passed on (a store)
 *    stays with its request until another one needs it; it is given away once its request waits for something else.
 *  - A request that needs a thing with another owner joins the thread's one queue. It receives the thing in the moment in
 *    which that becomes free, before it runs: no request overtakes it, and once it is woken by its turn, it is the owner.
 *  - The end of a request has this order: its script, shutdown functions and destructors; the cleaning of its connections,
 *    which it still owns (worker/connections/cleaning.c); the turn of the first in the queue; the wait for its tasks.
 *
 * A task that awaits tasks of its thread waits in the same queue: they may need what it owns.
 *
 * The same queue serves two more kinds of waits: for places, which are interchangeable (the instances of an object of
 * Svc\per_request()), and for locks on files, which php/files/locks.c keeps.
 *
 * The wait of an owner may depend on a request that waits for the owner. So a thing that is *at rest* (worker/connections/rest.h:
 * no exchange, result, copy or transaction is under way) may be *lent*: another request owns it until it ends, or until it
 * waits for something else while the thing is at rest and a third request needs it; then it returns to the lender. Which
 * requests a waiting owner lends to depends on the purpose of its wait:
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
 * Session state is what the owner has changed in a session and other requests must not see (keeps_state). A thing that is
 * not at rest is not lent; the wait of one request is refused instead (graph.h).
 *
 * Invariants.
 *  1. A thing has at most one owner, a request that has begun and not ended: the end of a request releases everything,
 *     however it ends (shim_turns_end), and so does the loss of its stack.
 *  2. Whenever a script's code runs, no free thing and no free place has a waiter, and no request is in a deadlock that
 *     could be resolved.
 *  3. A waiter is in the queue exactly while it is parked. Its wait ends by its turn, its refusal, the destruction of the
 *     thing, its time limit or its cancellation, whichever comes first.
 *  4. A thing is lent only once at a time: the borrower does not lend it on, but returns it.
 *  5. This code does not allocate memory, poll or throw, and does not know what the things are.
 *
 * All state is thread-local, as fibers are. */
#ifndef SVC_SHIM_TURNS_H
#define SVC_SHIM_TURNS_H

#include "worker/stack/fiber.h"

#include <stdbool.h>

/* A thing that one request at a time uses. Embedded in the user's record of it; initially all zero, except `is_leased`. */
typedef struct shim_owned {
    /* The running request that has opened it, or that leases it. */
    shim_fiber *owner;
    bool is_leased;
    bool is_apart;
    /* A lease that lasts until another request needs the thing. */
    bool is_passed_on;
    /* Whether it is at rest is unknown: its bytes are of a protocol that svc does not follow. */
    bool is_unknown;
    /* The owner has borrowed it from `lender`, or from the joint owner if that is NULL. */
    bool is_lent;
    shim_fiber *lender;
    /* The sockets that calls on it have used (sockets.c). */
    struct shim_note *sockets;
    /* The number of calls on it in progress, on any stack (uses.h). */
    unsigned uses;
    /* A bailout has skipped the rest of a call. */
    bool is_broken;
    /* Links of the list of things with an owner. */
    struct shim_owned *next;
    struct shim_owned *previous;
} shim_owned;

/* Places that requests hold. Embedded in the object that keeps the list of holders. */
typedef struct shim_places {
    uint32_t max;
    uint32_t in_use;
} shim_places;

/* A lock on a file. */
typedef struct shim_file_lock {
    uint64_t device;
    uint64_t inode;
    /* The session extension takes it. */
    bool is_session;
} shim_file_lock;

typedef enum shim_turn {
    /* The request has the thing. */
    SHIM_TURN_HERE = 0,
    /* The wait would be a deadlock, and the request is the youngest one whose refusal resolves it. */
    SHIM_TURN_REFUSED,
    /* It would have to wait, but cannot without blocking its thread, on which the owner runs. */
    SHIM_TURN_STUCK,
    /* The request may no longer wait: its time limit has expired, or it is a cancelled task. */
    SHIM_TURN_OVER,
    /* The thing was destroyed. */
    SHIM_TURN_GONE,
} shim_turn;

/* Waits until the running request may use the thing, and makes the request its owner. The caller keeps the thing's memory
 * in place until this returns. */
shim_turn shim_turn_take(shim_owned *thing);
/* Waits for a place. The request must not wait again before shim_turns_hold_place reports that it holds the place. */
shim_turn shim_turn_take_place(shim_places *places);
/* Releases a place to its first waiter. */
void shim_turn_give_place(shim_places *places);
/* Whether the request holds one of these places. */
extern bool (*shim_turns_hold_place)(const shim_fiber *fiber, const shim_places *places);
/* Pauses before the next attempt at a lock that is not free. A completion, unless NULL, ends the pause, too. */
shim_turn shim_turn_pause_at_lock(const shim_file_lock *lock, bool may_be_refused, int64_t *pause,
                                  shim_completion *completion);
/* The tasks that a task awaits, some of which may run on its thread. */
typedef struct shim_awaited_tasks {
    shim_task *const *list;
    size_t count;
    /* One settled task may not suffice: it may have failed. */
    bool needs_all;
} shim_awaited_tasks;

/* Parks until tasks are settled. SHIM_WOKEN_BY_TURN is a deadlock: they wait for the running task, directly or
 * indirectly. */
shim_woken_by shim_turn_await(const shim_wait_set *set, const shim_awaited_tasks *tasks);
/* Whether the request holds the lock, alone or shared. With NULL, whether any request of the thread does. */
extern bool (*shim_turns_hold_lock)(const shim_fiber *fiber, const shim_file_lock *lock);
/* Throws the error of a refused wait. */
typedef void shim_refusal_thrower(const char *message);
extern shim_refusal_thrower *shim_turn_refusal_throw;

/* Questions about things; set by worker/connections/rest.c. `thing` is one that the request owns, or the placeholder for all that
 * it owns jointly. */
typedef struct shim_thing_questions {
    /* Whether another request may use it now. */
    bool (*is_at_rest)(const shim_owned *thing, const shim_fiber *owner);
    /* Whether the owner has left state on it that other requests must not see, even at rest. */
    bool (*keeps_state)(const shim_owned *thing, const shim_fiber *owner);
    /* The owner has lost it, and has nothing left to clean up on it. */
    void (*is_left)(const shim_owned *thing, const shim_fiber *owner);
} shim_thing_questions;
extern shim_thing_questions shim_turns_ask;
/* Returns the placeholder for all things with a joint owner. */
shim_owned *shim_turn_joint(void);
/* Whether the joint owner has used something of unknown state. */
bool shim_turns_joint_is_unknown(void);
/* Whether the running request may use it without waiting. Does not change the owner. */
bool shim_turn_is_free(const shim_owned *thing);
/* Whether the running request owns it, alone or jointly. */
bool shim_turn_is_here(const shim_owned *thing);
/* Makes the request the owner of a thing that had none. */
void shim_turn_own(shim_owned *thing, shim_fiber *fiber);
/* Releases it (the lease ended, or it turned out to be shared) and wakes its next waiter. */
void shim_turn_give(shim_owned *thing);
/* Removes a thing that is about to be destroyed; its waiters get SHIM_TURN_GONE. */
void shim_turn_forget(shim_owned *thing);
/* Releases everything that the request owns. */
void shim_turns_end(const shim_fiber *fiber);
/* The same, but keeps leases, whose calls are still in progress. */
void shim_turns_release(const shim_fiber *fiber);
/* Excludes a thing that the running request has opened from those of the joint owner, once it is free. */
void shim_turn_set_apart(shim_owned *thing);
/* Whether the request has opened anything that would pass to the joint owner. */
bool shim_turns_has_opened(const shim_fiber *fiber);
/* Whether the request is the joint owner. */
bool shim_turns_are_joint(const shim_fiber *fiber);
/* Forgets all owners and waiters: the thread has a new worker, or is a forked child. */
void shim_turns_forget(void);
void shim_turns_install(void);

#endif
