/* Deadlocks between the requests of a thread; see graph.h. */
#include "worker/connections/owners/graph.h"

#include <stddef.h>

void shim_queue_add(shim_queue *queue, shim_blocked *one)
{
    one->next = NULL;
    one->previous = queue->last;
    if (queue->last != NULL) {
        queue->last->next = one;
    } else {
        queue->first = one;
    }
    queue->last = one;
}

void shim_queue_remove(shim_queue *queue, shim_blocked *one)
{
    if (one->next != NULL) {
        one->next->previous = one->previous;
    } else {
        queue->last = one->previous;
    }
    if (one->previous != NULL) {
        one->previous->next = one->next;
    } else {
        queue->first = one->next;
    }
    one->next = one->previous = NULL;
}

/* Marks the requests that are stuck if the wait of `refused` ends; returns whether there are any. */
static bool find_stuck(const shim_queue *queue, const shim_blocked *refused, const shim_graph_callbacks *ask)
{
    unsigned left = 0;
    for (shim_blocked *one = queue->first; one != NULL; one = one->next) {
        one->is_stuck = one != refused;
        left += one->is_stuck;
    }
    for (bool is_settled = false; !is_settled;) {
        is_settled = true;
        for (shim_blocked *one = queue->first; one != NULL; one = one->next) {
            if (one->is_stuck && ask->can_go_on(queue, one)) {
                one->is_stuck = false;
                is_settled = false;
                left--;
            }
        }
    }
    return left > 0;
}

/* Whether any request is stuck. Only the request that has just joined can have closed a circle: usually its answer
 * suffices. */
static bool is_anybody_stuck(const shim_queue *queue, const shim_blocked *latest, const shim_graph_callbacks *ask)
{
    for (shim_blocked *one = queue->first; one != NULL; one = one->next) {
        one->is_stuck = true;
    }
    return !ask->can_go_on(queue, latest) && find_stuck(queue, NULL, ask);
}

static shim_blocked *one_to_lend_to(const shim_queue *queue, const shim_graph_callbacks *ask)
{
    shim_blocked *one = queue->first;
    while (one != NULL && !(one->is_stuck && ask->can_borrow(queue, one))) {
        one = one->next;
    }
    return one;
}

/* Returns the youngest refusable request that is older than `limit`; NULL if there is none. */
static shim_blocked *youngest_below(const shim_queue *queue, uint64_t limit, bool is_stuck_only)
{
    shim_blocked *youngest = NULL;
    for (shim_blocked *one = queue->first; one != NULL; one = one->next) {
        if (one->may_be_refused && one->serial < limit && (one->is_stuck || !is_stuck_only) &&
            (youngest == NULL || one->serial > youngest->serial)) {
            youngest = one;
        }
    }
    return youngest;
}

/* Returns the youngest request whose refusal leaves none stuck; if no single one suffices, the youngest stuck one. */
static shim_blocked *one_to_refuse(const shim_queue *queue, const shim_graph_callbacks *ask)
{
    shim_blocked *one = youngest_below(queue, UINT64_MAX, false);
    while (one != NULL && find_stuck(queue, one, ask)) {
        one = youngest_below(queue, one->serial, false);
    }
    if (one == NULL) {
        (void)find_stuck(queue, NULL, ask);
        one = youngest_below(queue, UINT64_MAX, true);
    }
    return one;
}

shim_decision shim_graph_decide(const shim_queue *queue, shim_blocked *latest, const shim_graph_callbacks *ask)
{
    if (!is_anybody_stuck(queue, latest, ask)) {
        return (shim_decision){.way = SHIM_WAY_OUT_NONE};
    }
    shim_blocked *borrower = one_to_lend_to(queue, ask);
    if (borrower != NULL) {
        return (shim_decision){.way = SHIM_WAY_OUT_LEND, .who = borrower};
    }
    shim_blocked *refused = one_to_refuse(queue, ask);
    return (shim_decision){.way = refused != NULL ? SHIM_WAY_OUT_REFUSE : SHIM_WAY_OUT_NONE, .who = refused};
}
