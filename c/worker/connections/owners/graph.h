/* Deadlocks between the requests of a thread: finds them and decides how to resolve them.
 *
 * A request that waits for something that another request of its thread has is an edge from the former to the latter. Waits
 * for anything else (the network, a program, a time, a client) are not in the graph: they may end without help.
 *
 * A request is stuck if no request that is not stuck can end its wait. Requests get stuck in the moment in which the last
 * of them begins to wait, so that is when the graph is checked. The way out is to lend one of them what it waits for, if
 * that can be lent; otherwise the wait of one request is refused: the youngest whose refusal leaves none stuck.
 *
 * This code does not know what the requests wait for, allocates no memory and has no effects: it can be simulated. */
#ifndef SVC_WORKER_CONNECTIONS_OWNERS_GRAPH_H
#define SVC_WORKER_CONNECTIONS_OWNERS_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

/* A request that waits. Embedded in the record of its wait. */
typedef struct shim_blocked {
    /* Its position in the order in which requests have begun. */
    uint64_t serial;
    /* Its wait can fail. */
    bool may_be_refused;
    /* Its wait would never end; computed. */
    bool is_stuck;
    struct shim_blocked *next;
    struct shim_blocked *previous;
} shim_blocked;

/* The waiting requests, in order of arrival. */
typedef struct shim_queue {
    shim_blocked *first;
    shim_blocked *last;
} shim_queue;

void shim_queue_add(shim_queue *queue, shim_blocked *one);
void shim_queue_remove(shim_queue *queue, shim_blocked *one);

/* Questions about a waiting request. The answers do not change during a decision, except as far as they depend on the
 * `is_stuck` of others. */
typedef struct shim_graph_callbacks {
    /* Whether a request that is not stuck may end its wait. */
    bool (*can_go_on)(const shim_queue *queue, const shim_blocked *one);
    /* Whether a stuck owner can lend it what it waits for. */
    bool (*can_borrow)(const shim_queue *queue, const shim_blocked *one);
} shim_graph_callbacks;

typedef enum shim_way_out {
    /* No request is stuck, or there is no way out. */
    SHIM_WAY_OUT_NONE = 0,
    /* Lend `who` what it waits for. */
    SHIM_WAY_OUT_LEND,
    /* Refuse the wait of `who`. */
    SHIM_WAY_OUT_REFUSE,
} shim_way_out;

typedef struct shim_decision {
    shim_way_out way;
    shim_blocked *who;
} shim_decision;

/* `latest` has joined the queue; before that, no request was stuck, or there was no way out. Called again after each way
 * out while `latest` waits. */
shim_decision shim_graph_decide(const shim_queue *queue, shim_blocked *latest, const shim_graph_callbacks *ask);

#endif
