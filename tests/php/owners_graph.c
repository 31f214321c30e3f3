/* Random requests that wait for each other, and the decisions about them, compared with a model that tries all subsets.
 *
 * In the model, a request is stuck if it is in a set of requests each of which waits for a member of the set, whatever the
 * others do. The world records the holders of resources, locks and places, begins waits in random order, and carries out the
 * decisions. Arguments: the first seed, and the number of worlds. */
#include "worker/connections/owners/graph.c"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 6, RESOURCES = 5, LOCKS = 3, NOBODY = -1, OUTSIDE = -2 };

typedef enum want_kind { NOTHING, RESOURCE, LOCK, PLACE } want_kind;

typedef struct request {
    shim_blocked blocked;
    bool is_queued;
    want_kind wants;
    int which;
} request;

static request requests[REQUESTS];
static shim_queue queue;
static int owner_of_resource[RESOURCES];
static bool is_at_rest[RESOURCES];
/* Any number of requests share a lock. */
static bool has_lock[REQUESTS][LOCKS];
static bool has_place[REQUESTS];
static bool has_place_outside;

static uint64_t seed;
static unsigned random_below(unsigned limit)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 33) % limit;
}

static _Noreturn void fail(const char *what)
{
    printf("%s\n", what);
    exit(1);
}

static request *request_of(const shim_blocked *blocked)
{
    return (request *)((char *)blocked - offsetof(request, blocked));
}

/* Whether the wait can end if only those outside of the set go on. */
static bool can_end_without(const request *one, unsigned set)
{
    switch (one->wants) {
    case RESOURCE:
        return owner_of_resource[one->which] < 0 || !(set & 1u << owner_of_resource[one->which]);
    case LOCK:
        for (int i = 0; i < REQUESTS; i++) {
            if ((set & 1u << i) != 0 && &requests[i] != one && has_lock[i][one->which]) {
                return false;
            }
        }
        return true;
    case PLACE:
        for (int i = 0; i < REQUESTS; i++) {
            if (has_place[i] && !(set & 1u << i)) {
                return true;
            }
        }
        return has_place_outside;
    default:
        return true;
    }
}

/* ---- what is asked ---- */

static unsigned stuck_set(void)
{
    unsigned set = 0;
    for (int i = 0; i < REQUESTS; i++) {
        set |= requests[i].is_queued && requests[i].blocked.is_stuck ? 1u << i : 0;
    }
    return set;
}

static bool can_go_on(const shim_queue *unused, const shim_blocked *blocked)
{
    (void)unused;
    return can_end_without(request_of(blocked), stuck_set());
}

static bool can_borrow(const shim_queue *unused, const shim_blocked *blocked)
{
    (void)unused;
    const request *one = request_of(blocked);
    return one->wants == RESOURCE && owner_of_resource[one->which] >= 0 && is_at_rest[one->which] &&
           requests[owner_of_resource[one->which]].is_queued && requests[owner_of_resource[one->which]].blocked.is_stuck;
}

/* ---- the model ---- */

static unsigned queued_set(void)
{
    unsigned set = 0;
    for (int i = 0; i < REQUESTS; i++) {
        set |= requests[i].is_queued ? 1u << i : 0;
    }
    return set;
}

/* The largest set of requests that wait for each other alone, without those in `but`. */
static unsigned deadlocked(unsigned but)
{
    const unsigned waiting = queued_set() & ~but;
    unsigned all = 0;
    for (unsigned set = waiting; set != 0; set = (set - 1) & waiting) {
        bool is_closed = true;
        for (int i = 0; i < REQUESTS && is_closed; i++) {
            is_closed = !(set & 1u << i) || !can_end_without(&requests[i], set);
        }
        all |= is_closed ? set : 0;
    }
    return all;
}

static int index_of(const shim_blocked *blocked)
{
    return (int)(request_of(blocked) - requests);
}

static void check(shim_decision decision, const request *latest)
{
    const unsigned stuck = deadlocked(0);
    (void)latest;
    if (decision.way == SHIM_WAY_OUT_NONE) {
        for (int i = 0; i < REQUESTS; i++) {
            if ((stuck & 1u << i) != 0 && requests[i].blocked.may_be_refused) {
                fail("a request is stuck that could be refused");
            }
            if ((stuck & 1u << i) != 0 && requests[i].wants == RESOURCE && is_at_rest[requests[i].which]) {
                fail("a request is stuck to which could be lent");
            }
        }
        return;
    }
    const int who = index_of(decision.who);
    if ((stuck & 1u << who) == 0) {
        fail("a request is helped or refused that is not stuck");
    }
    for (int i = 0; i < REQUESTS; i++) {
        const request *one = &requests[i];
        const bool could_borrow = (stuck & 1u << i) != 0 && one->wants == RESOURCE && is_at_rest[one->which];
        if (decision.way == SHIM_WAY_OUT_REFUSE && could_borrow) {
            fail("a wait is refused although something could be lent");
        }
        if (decision.way == SHIM_WAY_OUT_REFUSE && one->is_queued && one->blocked.may_be_refused &&
            one->blocked.serial > decision.who->serial && deadlocked(1u << i) == 0) {
            fail("a younger one would have been enough");
        }
    }
    if (decision.way == SHIM_WAY_OUT_LEND && !is_at_rest[decision.who == NULL ? 0 : request_of(decision.who)->which]) {
        fail("something is lent that is not at rest");
    }
    if (decision.way == SHIM_WAY_OUT_REFUSE && !decision.who->may_be_refused) {
        fail("a wait is refused that cannot fail");
    }
}

/* ---- the world ---- */

static void stop(request *one)
{
    shim_queue_remove(&queue, &one->blocked);
    one->is_queued = false;
}

static void begin(void)
{
    static const shim_graph_callbacks ask = {.can_go_on = can_go_on, .can_borrow = can_borrow};
    const int i = (int)random_below(REQUESTS);
    request *one = &requests[i];
    if (one->is_queued) {
        return;
    }
    one->wants = (want_kind)(RESOURCE + random_below(3));
    one->which = (int)random_below(one->wants == RESOURCE ? RESOURCES : LOCKS);
    one->blocked.may_be_refused = one->wants != LOCK || random_below(2) == 0;
    if (can_end_without(one, 1u << i) && one->wants == RESOURCE && owner_of_resource[one->which] < 0) {
        owner_of_resource[one->which] = i;
        return;
    }
    if (one->wants == RESOURCE && owner_of_resource[one->which] == i) {
        return;
    }
    shim_queue_add(&queue, &one->blocked);
    one->is_queued = true;
    for (int rounds = 0; one->is_queued; rounds++) {
        const shim_decision decision = shim_graph_decide(&queue, &one->blocked, &ask);
        check(decision, one);
        if (decision.way == SHIM_WAY_OUT_NONE) {
            return;
        }
        request *who = request_of(decision.who);
        if (decision.way == SHIM_WAY_OUT_LEND) {
            owner_of_resource[who->which] = (int)(who - requests);
        }
        stop(who);
        if (rounds > REQUESTS) {
            fail("a decision is made again and again");
        }
    }
}

static void run_world(void)
{
    memset(&queue, 0, sizeof(queue));
    memset(requests, 0, sizeof(requests));
    has_place_outside = random_below(4) == 0;
    for (int i = 0; i < REQUESTS; i++) {
        requests[i].blocked.serial = (uint64_t)i + 1;
        has_place[i] = random_below(3) == 0;
        for (int lock = 0; lock < LOCKS; lock++) {
            has_lock[i][lock] = random_below(4) == 0;
        }
    }
    for (int resource = 0; resource < RESOURCES; resource++) {
        owner_of_resource[resource] = random_below(3) == 0 ? NOBODY : (int)random_below(REQUESTS);
        is_at_rest[resource] = random_below(2) == 0;
    }
    for (int step = 0; step < 12; step++) {
        begin();
    }
}

int main(int count, char **arguments)
{
    const uint64_t first = count > 1 ? strtoull(arguments[1], NULL, 10) : 1;
    const uint64_t worlds = count > 2 ? strtoull(arguments[2], NULL, 10) : 1000;
    for (uint64_t i = 0; i < worlds; i++) {
        seed = (first + i) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        (void)random_below(2);
        printf("seed %llu: ", (unsigned long long)(first + i));
        run_world();
        printf("ok\n");
    }
    return 0;
}
