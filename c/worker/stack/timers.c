/* Requests that wait for a deadline: a binary heap, earliest first. Timeouts of scripts, and their deadlines. */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/stack/stack.h"

static __thread struct {
    shim_fiber **list;
    uint32_t count;
    uint32_t room;
} timers;

static void put(uint32_t place, shim_fiber *fiber)
{
    timers.list[place] = fiber;
    fiber->timer_place = place + 1;
}

static void move_up(uint32_t place, shim_fiber *fiber)
{
    while (place > 0 && timers.list[(place - 1) / 2]->deadline > fiber->deadline) {
        put(place, timers.list[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    put(place, fiber);
}

static void move_down(uint32_t place, shim_fiber *fiber)
{
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child >= timers.count) {
            break;
        }
        if (child + 1 < timers.count && timers.list[child + 1]->deadline < timers.list[child]->deadline) {
            child++;
        }
        if (timers.list[child]->deadline >= fiber->deadline) {
            break;
        }
        put(place, timers.list[child]);
        place = child;
    }
    put(place, fiber);
}

bool shim_timer_add(shim_fiber *fiber)
{
    if (!SHIM_RESERVE(timers)) {
        return false;
    }
    move_up(timers.count++, fiber);
    return true;
}

void shim_timer_remove(shim_fiber *fiber)
{
    if (fiber->timer_place == 0) {
        return;
    }
    uint32_t place = fiber->timer_place - 1;
    fiber->timer_place = 0;
    shim_fiber *last = timers.list[--timers.count];
    if (last == fiber) {
        return;
    }
    if (place > 0 && timers.list[(place - 1) / 2]->deadline > last->deadline) {
        move_up(place, last);
    } else {
        move_down(place, last);
    }
}

shim_fiber *shim_timer_first(void)
{
    return timers.count > 0 ? timers.list[0] : NULL;
}

void shim_timers_close(void)
{
    free(timers.list);
    timers.list = NULL;
    timers.count = timers.room = 0;
}

/* ---- deadlines ---- */

/* One year: longer than any time limit, and its nanoseconds are far from overflowing an int64_t. */
enum { SECONDS_MAX = 31536000 };

int64_t shim_deadline_after(int64_t seconds, int64_t nanoseconds)
{
    const int64_t bounded = seconds < SECONDS_MAX ? seconds : SECONDS_MAX;
    const int64_t moment = shim_now() + bounded * 1000000000 + nanoseconds;
    return moment > 0 ? moment : 1;
}

int64_t shim_deadline_after_seconds(double seconds)
{
    return shim_deadline_after(0, (int64_t)((seconds < SECONDS_MAX ? seconds : SECONDS_MAX) * 1e9));
}

bool shim_deadline_of(int64_t *deadline, double timeout, bool is_null, uint32_t parameter)
{
    if (!is_null && !(timeout >= 0)) {
        zend_argument_value_error(parameter, "must be null, or greater than or equal to 0");
        return false;
    }
    *deadline = is_null ? 0 : shim_deadline_after_seconds(timeout);
    return true;
}
