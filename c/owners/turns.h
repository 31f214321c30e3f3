/* Turns: which request may use a thing that several requests of a thread can reach, such as a database connection.
 *
 * While a request waits inside a library, its thread runs other requests. If one of them used the same connection, it
 * would write into the middle of an exchange and read the rows of another request. So each such thing has one owner at a
 * time, and others wait their turn, parked.
 *
 * A thing is in one of these states:
 *
 *      opened by a running request           nobody's                        leased
 *      (owner != NULL)                       (owner == NULL)                 (is_leased, owner != NULL)
 *            │                                  │        ▲                      ▲          │
 *            │ end of that request,             │ first  │ end of that          │ a call   │ the call
 *            │ or it gives all it owns back     │ touch  │ request, or it       │ begins   │ returns, or
 *            ▼                                  ▼        │ gives all back       │          ▼ the request ends
 *      nobody's                       the joint owner's ─┘                    (is_leased, owner == NULL)
 *            │
 *            │ who has opened it has handed it on to one request at a time (is_apart)
 *            ▼
 *      nobody's, apart ──first touch──▶ (owner != NULL) ──end of that request──▶ nobody's, apart
 *
 *  - What a running request has opened is its own. All that no running request has opened (by the boot script, by a
 *    request that has ended, persistent connections) has one owner together, the joint owner: who first touches one of
 *    them owns them all to its end. The order in which a request touches them therefore cannot matter.
 *  - A thing that is apart is none of these: requests that each have one of their own do not wait for each other.
 *  - A thing that is leased belongs to a request for one call, and is free otherwise. One that is passed on (a store) stays
 *    with its request until somebody else needs it, and is given away then, once that request waits for something else.
 *  - A request that needs what another one owns joins one queue of the thread. It is given what it needs at the moment in
 *    which it becomes free, before it runs: nobody overtakes, and who is told that it is its turn has it.
 *  - The end of a request comes in this order: its script, shutdown functions and destructors; what it leaves on its
 *    connections is cleaned up, still as their owner (connections/cleaning.c); then the first in the queue has its turn;
 *    then its tasks are waited for.
 *
 * A task that awaits tasks of its thread waits in the same queue: they may need what it owns.
 *
 * There are also things of which several are alike, and a request gets any one of them: places (the instances of an object
 * of Svc\per_request()). And there are locks on files, which files/locks.c knows. Requests wait for these in the same queue.
 *
 * An owner may wait for something itself, and whoever ends that wait may be the one that waits for the owner. So a thing that
 * is *at rest* (connections/rest.h: no exchange, result, copy or transaction is under way) may be *lent*: another request is
 * its owner until it ends, or until it waits for something else while the thing is at rest and somebody needs it; then it is
 * the lender's again. What an owner that waits lends depends on what it waits for:
 *
 *      what the owner waits for          lends what is at rest
 *      another request of the thread     if that one waits for it, directly or through others (graph.h)
 *      its client                        always
 *      a session's lock that no request  always: nobody says who holds it, or what that one waits for. Likewise if it waits
 *      of the thread holds               for requests of the thread that wait for such a lock
 *      another such lock                 to who does not find a state in the session that is not meant for it; in a second, to all
 *      tasks                             to tasks of the same request, which may be the ones it waits for
 *      a pause, after it has used a      to who has used a store as well: both may poll for a lock there
 *      store
 *      anything else, and all above      to who has waited for a second, unless it has left something in the session that
 *                                        only its own requests should see: the two may wait for each other through others
 *
 * A thing that is not at rest is not lent; then the wait of one request is refused (graph.h).
 *
 * Invariants.
 *  1. A thing has at most one owner, a request that has begun and not ended: the end takes everything away, however the
 *     request ends (shim_turns_end), and so does the loss of its stack.
 *  2. No thing that is free has a waiter, nor has a free place, and nobody is stuck who could be helped, whenever a script's
 *     code runs.
 *  3. A waiter is in the queue exactly as long as it is parked. Its wait ends by its turn, its refusal, the disappearance
 *     of the thing, its time limit or its cancellation, whichever comes first.
 *  4. A thing is lent once at a time: who has borrowed it does not lend it, but gives it back.
 *  5. Nothing here allocates memory, polls, throws, or knows what the things are.
 *
 * Everything is of one thread, as fibers are. */
#ifndef SVC_SHIM_TURNS_H
#define SVC_SHIM_TURNS_H

#include "fiber/fiber.h"

#include <stdbool.h>

/* A thing that one request at a time uses. Embedded in what its user keeps about it; all zero at first, but for
 * `is_leased`. */
typedef struct shim_owned {
    /* The running request that has opened it, or that leases it. */
    shim_fiber *owner;
    bool is_leased;
    bool is_apart;
    /* It is leased, but stays with its request until somebody needs it. */
    bool is_passed_on;
    /* Nobody knows whether it is at rest: bytes of a protocol that is none of ours. */
    bool is_unknown;
    /* The owner has borrowed it: from this request, or else from the joint owner. */
    bool is_lent;
    shim_fiber *lender;
    /* The sockets behind it, as far as they were seen (sockets.c). */
    struct shim_note *sockets;
    /* Calls on it that are in progress, on whatever stack (uses.h). */
    unsigned uses;
    /* A bailout has skipped the rest of a call. */
    bool is_broken;
    /* The neighbours among the things that have an owner. */
    struct shim_owned *next;
    struct shim_owned *previous;
} shim_owned;

/* Places that requests hold. Embedded in what knows who holds them. */
typedef struct shim_places {
    uint32_t max;
    uint32_t in_use;
} shim_places;

/* A lock on a file. */
typedef struct shim_file_lock {
    uint64_t device;
    uint64_t inode;
    /* The session extension wants it. */
    bool is_session;
} shim_file_lock;

typedef enum shim_turn {
    /* The request has it. */
    SHIM_TURN_HERE = 0,
    /* The wait would never end, and the request is the youngest whose refusal ends that of others. */
    SHIM_TURN_REFUSED,
    /* It would have to wait, and cannot wait without blocking its thread, on which the owner runs. */
    SHIM_TURN_STUCK,
    /* The request is to wait no more: its time limit has expired, or it is a task that has been cancelled. */
    SHIM_TURN_OVER,
    /* The thing is no more. */
    SHIM_TURN_GONE,
} shim_turn;

/* Waits until the running request may use the thing, and gives it to the request. The thing stays where it is in memory
 * until this returns. */
shim_turn shim_turn_take(shim_owned *thing);
/* Waits for a place. Until it is noted as the request's (shim_turns_hold_place), the request must not wait again. */
shim_turn shim_turn_take_place(shim_places *places);
/* Gives a place back, to the first who waits for it. */
void shim_turn_give_place(shim_places *places);
/* Whether the request holds one of these places. */
extern bool (*shim_turns_hold_place)(const shim_fiber *fiber, const shim_places *places);
/* Waits a moment for a lock that is not free: until its caller is to try again. A completion, if there is one, ends the wait,
 * too. */
shim_turn shim_turn_pause_at_lock(const shim_file_lock *lock, bool may_be_refused, int64_t *pause,
                                  shim_completion *completion);
/* The tasks that a task awaits, some of which may run on its thread. */
typedef struct shim_awaited_tasks {
    shim_task *const *list;
    size_t count;
    /* One settled task may not be enough: it may have failed. */
    bool needs_all;
} shim_awaited_tasks;

/* Parks until tasks are settled. SHIM_WOKEN_BY_TURN: they wait for the running task, directly or through others. */
shim_woken_by shim_turn_await(const shim_wait_set *set, const shim_awaited_tasks *tasks);
/* Whether the request holds the lock, or shares it; whether any of the thread does if it is NULL. */
extern bool (*shim_turns_hold_lock)(const shim_fiber *fiber, const shim_file_lock *lock);
/* Throws what a script is told whose wait was refused. */
typedef void shim_refusal_thrower(const char *message);
extern shim_refusal_thrower *shim_turn_refusal_throw;

/* What is known about things; set by connections/rest.c. `thing` is one that the request owns, or what stands for all that
 * it owns together with others. */
typedef struct shim_thing_questions {
    /* Whether another request may use it now. */
    bool (*is_at_rest)(const shim_owned *thing, const shim_fiber *owner);
    /* Whether the owner has left something on it that others must not see, even at rest. */
    bool (*keeps_state)(const shim_owned *thing, const shim_fiber *owner);
    /* The owner has it no more, and has nothing left to clean up on it. */
    void (*is_left)(const shim_owned *thing, const shim_fiber *owner);
} shim_thing_questions;
extern shim_thing_questions shim_turns_ask;
/* What stands for all that has a joint owner. */
shim_owned *shim_turn_joint(void);
/* Whether something of unknown state was used by that owner. */
bool shim_turns_joint_is_unknown(void);
/* Whether the running request may use it without waiting. Takes nothing. */
bool shim_turn_is_free(const shim_owned *thing);
/* Whether it, or the joint ownership that it falls under, belongs to the running request. */
bool shim_turn_is_here(const shim_owned *thing);
/* The request has opened the thing, which was nobody's. */
void shim_turn_own(shim_owned *thing, shim_fiber *fiber);
/* It is nobody's: a lease has ended, or it turned out to be shared. Who waits for it has its turn. */
void shim_turn_give(shim_owned *thing);
/* The thing is no more. Who waits for it goes on. */
void shim_turn_forget(shim_owned *thing);
/* The request owns nothing any more. */
void shim_turns_end(const shim_fiber *fiber);
/* The same, but it keeps what it leases for calls that go on. */
void shim_turns_release(const shim_fiber *fiber);
/* If the running request has opened it: once it is nobody's, it is not one of those that have a joint owner. */
void shim_turn_set_apart(shim_owned *thing);
/* Whether the request has opened anything that would have a joint owner next. */
bool shim_turns_has_opened(const shim_fiber *fiber);
/* Whether it is the joint owner. */
bool shim_turns_are_joint(const shim_fiber *fiber);
/* The thread has a new worker, or is a forked child: nobody owns anything, or waits. */
void shim_turns_forget(void);
void shim_turns_install(void);

#endif
