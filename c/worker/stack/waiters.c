/* Requests that wait for completions.
 *
 * A completion belongs to the host, with all state that threads share about it. Here, each request that waits for
 * completions has a number, which is passed to the host with each of them. The completing thread passes the number on,
 * and the host passes its group back on the request's thread. Numbers are reused, so the host may pass a number back
 * late, when it belongs to another request or to none. A notified request therefore checks which completions are
 * complete.
 *
 * There is a number for each waiting request: a request without one would have to block its thread, on which the task
 * that it waits for may be about to run. */
#include "compat.h"
#include "php/context/context.h"
#include "shim.h"
#include "worker/stack/stack.h"

#include <stdlib.h>

enum { ROOM_FIRST = 64 };

static __thread struct {
    /* Indexed by number; NULL if the thread blocks under the number, or if the number is free. */
    shim_fiber **fibers;
    /* The free numbers; the last one is used next. */
    uint32_t *free;
    uint32_t free_count;
    uint32_t room;
} waiters;

static bool grow(void)
{
    const uint32_t before = waiters.room, room = before > 0 ? before * 2 : ROOM_FIRST;
    shim_fiber **fibers = realloc(waiters.fibers, room * sizeof(*fibers));
    if (fibers == NULL) {
        return false;
    }
    waiters.fibers = fibers;
    uint32_t *numbers = realloc(waiters.free, room * sizeof(*numbers));
    if (numbers == NULL) {
        return false;
    }
    waiters.free = numbers;
    memset(fibers + before, 0, (room - before) * sizeof(*fibers));
    for (uint32_t number = room; number > before; number--) {
        waiters.free[waiters.free_count++] = number - 1;
    }
    waiters.room = room;
    return true;
}

bool shim_waiter_reserve(uint32_t *number)
{
    if (waiters.free_count == 0 && !grow()) {
        return false;
    }
    *number = waiters.free[--waiters.free_count];
    return true;
}

void shim_waiter_release(uint32_t number)
{
    waiters.fibers[number] = NULL;
    waiters.free[waiters.free_count++] = number;
}

static bool take_number(shim_fiber *fiber)
{
    uint32_t number = 0;
    if (!shim_waiter_reserve(&number)) {
        return false;
    }
    waiters.fibers[number] = fiber;
    fiber->waiter = number + 1;
    return true;
}

static void give_number_back(shim_fiber *fiber)
{
    const uint32_t number = fiber->waiter - 1;
    fiber->waiter = 0;
    shim_waiter_release(number);
}

/* Stops waiting for the first `count` completions, and releases the number. */
static void stop_waiting_for(shim_fiber *fiber, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        shim_host.completion.stop_waiting(fiber->wait_set->completions[i]);
    }
    give_number_back(fiber);
}

shim_waiter_added shim_waiter_add(shim_fiber *fiber, unsigned *member)
{
    const shim_wait_set *set = fiber->wait_set;
    if (set->completion_count == 0) {
        return SHIM_WAITER_ADDED;
    }
    if (!take_number(fiber)) {
        return SHIM_WAITER_FAILED;
    }
    for (unsigned i = 0; i < set->completion_count; i++) {
        if (!shim_host.completion.wait(set->completions[i], fiber->waiter - 1)) {
            stop_waiting_for(fiber, i + 1);
            *member = i;
            return SHIM_WAITER_COMPLETE;
        }
    }
    return SHIM_WAITER_ADDED;
}

void shim_waiter_remove(shim_fiber *fiber)
{
    if (fiber->waiter != 0) {
        stop_waiting_for(fiber, fiber->wait_set->completion_count);
    }
}

void shim_waiters_close(void)
{
    free(waiters.fibers);
    free(waiters.free);
    memset(&waiters, 0, sizeof(waiters));
}

void shim_waiters_forget(void)
{
    memset(&waiters, 0, sizeof(waiters));
}

static bool wake_if_complete(shim_fiber *fiber)
{
    const shim_wait_set *set = fiber->wait_set;
    for (unsigned i = 0; i < set->completion_count; i++) {
        if (shim_host.completion.is_complete(set->completions[i])) {
            shim_wake(fiber, SHIM_WOKEN_BY_COMPLETION, i);
            return true;
        }
    }
    return false;
}

size_t shim_waiters_notify(uint32_t group)
{
    size_t count = 0;
    for (uint32_t number = group; number < waiters.room; number += SHIM_WAITER_GROUPS) {
        count += waiters.fibers[number] != NULL && wake_if_complete(waiters.fibers[number]);
    }
    return count;
}
