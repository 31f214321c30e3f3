/* Requests that wait for completions.
 *
 * A completion belongs to the host, with everything that threads share about it. Here, each request that waits for
 * completions has a number, which is passed to the host with each of them. Whoever completes one passes the number on,
 * and the host passes it back, on the thread of the request. Numbers are reused, so the host may pass back a number
 * late, when it belongs to another request or to none. The recipient of a number therefore checks what is complete. */
#include "compat.h"
#include "context/host.h"
#include "fiber/fiber.h"
#include "fiber/ready.h"
#include "fiber/waiters.h"
#include "shim.h"

enum { BITS = 64, WORDS = SHIM_WAITERS_MAX / BITS };

static __thread struct {
    /* Indexed by number. */
    shim_fiber *fibers[SHIM_WAITERS_MAX];
    /* One bit per number in use. */
    uint64_t taken[WORDS];
} waiters;

bool shim_waiter_reserve(uint32_t *number)
{
    for (uint32_t word = 0; word < WORDS; word++) {
        if (waiters.taken[word] != UINT64_MAX) {
            *number = word * BITS + (uint32_t)__builtin_ctzll(~waiters.taken[word]);
            waiters.taken[word] |= UINT64_C(1) << *number % BITS;
            return true;
        }
    }
    return false;
}

void shim_waiter_release(uint32_t number)
{
    waiters.fibers[number] = NULL;
    waiters.taken[number / BITS] &= ~(UINT64_C(1) << number % BITS);
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

/* Tells the first `count` completions, and releases the number. */
static void leave(shim_fiber *fiber, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        shim_host.completion.stop_waiting(fiber->wait_set->completions[i]);
    }
    give_number_back(fiber);
}

shim_waits shim_waiter_add(shim_fiber *fiber, unsigned *member)
{
    const shim_wait_set *set = fiber->wait_set;
    if (set->completion_count == 0) {
        return SHIM_WAITS_FOR_ALL;
    }
    if (!take_number(fiber)) {
        return SHIM_WAITS_REFUSED;
    }
    for (unsigned i = 0; i < set->completion_count; i++) {
        if (!shim_host.completion.wait(set->completions[i], fiber->waiter - 1)) {
            leave(fiber, i + 1);
            *member = i;
            return SHIM_WAITS_NO_MORE;
        }
    }
    return SHIM_WAITS_FOR_ALL;
}

void shim_waiter_remove(shim_fiber *fiber)
{
    if (fiber->waiter != 0) {
        leave(fiber, fiber->wait_set->completion_count);
    }
}

void shim_waiters_forget(void)
{
    memset(&waiters, 0, sizeof(waiters));
}

bool shim_waiter_notify(uint32_t number)
{
    shim_fiber *fiber = number < SHIM_WAITERS_MAX ? waiters.fibers[number] : NULL;
    if (fiber == NULL) {
        return false;
    }
    const shim_wait_set *set = fiber->wait_set;
    for (unsigned i = 0; i < set->completion_count; i++) {
        if (shim_host.completion.is_complete(set->completions[i])) {
            shim_wake(fiber, SHIM_WOKEN_BY_COMPLETION, i);
            return true;
        }
    }
    return false;
}
