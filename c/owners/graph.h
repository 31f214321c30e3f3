/* Who waits for whom on a thread, and what is done about those who would wait for ever: decisions alone.
 *
 * A request that waits for what another request of its thread has is an edge from the one to the other. Whatever waits for
 * something else (the network, a program, a moment, its client) is not in here: that may end by itself.
 *
 * A request is stuck if nobody who is not stuck can end its wait. Requests get stuck when the last of them begins to wait,
 * so that is when this is asked. Then one of them is lent what it waits for, if that can be lent; otherwise the wait of one of
 * them is refused: the youngest whose refusal leaves nobody stuck.
 *
 * Nothing here knows what is waited for, allocates memory, or has an effect: it can be simulated. */
#ifndef SVC_SHIM_GRAPH_H
#define SVC_SHIM_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

/* A request that waits. Embedded in what is known about its wait. */
typedef struct shim_blocked {
    /* Its place in the order in which requests have begun. */
    uint64_t serial;
    /* Its wait can fail. */
    bool may_be_refused;
    /* It would wait for ever; computed. */
    bool is_stuck;
    struct shim_blocked *next;
    struct shim_blocked *previous;
} shim_blocked;

/* Those who wait, in the order in which they came. */
typedef struct shim_queue {
    shim_blocked *first;
    shim_blocked *last;
} shim_queue;

void shim_queue_add(shim_queue *queue, shim_blocked *one);
void shim_queue_remove(shim_queue *queue, shim_blocked *one);

/* What is asked about one who waits. The answers do not change while a decision is made, but for `is_stuck` of others. */
typedef struct shim_graph_questions {
    /* Whether somebody who is not stuck may end its wait. */
    bool (*can_go_on)(const shim_queue *queue, const shim_blocked *one);
    /* Whether what it waits for can be lent to it by one who is stuck. */
    bool (*can_borrow)(const shim_queue *queue, const shim_blocked *one);
} shim_graph_questions;

typedef enum shim_way_out {
    /* Nobody is stuck, or nothing can be done about it. */
    SHIM_WAY_OUT_NONE = 0,
    /* `who` is lent what it waits for. */
    SHIM_WAY_OUT_LEND,
    /* The wait of `who` is refused. */
    SHIM_WAY_OUT_REFUSE,
} shim_way_out;

typedef struct shim_decision {
    shim_way_out way;
    shim_blocked *who;
} shim_decision;

/* `latest` has joined the queue; nobody was stuck before, or nothing could be done about it. To be asked again after each
 * way out, for as long as `latest` waits. */
shim_decision shim_graph_decide(const shim_queue *queue, shim_blocked *latest, const shim_graph_questions *ask);

#endif
