/* Decides when PHP's cycle collector runs in worker mode.
 *
 * A collection frees the garbage of the whole thread, and calls the destructors of objects that other requests have
 * left. Inside a request, these destructors would write to its output and its session, and read its superglobals.
 * Collections that the engine starts by itself are therefore postponed until no request is active. A request that fills
 * the collector's buffer on its own has the collection run immediately, as does a call to gc_collect_cycles(), and the
 * end of a request whose own instance is part of a cycle (worker/connections/instances/own_instances.c).
 *
 * An idle worker also collects if there are new roots since the last collection, so that a call of gc_collect_cycles()
 * finds mostly the garbage of its own request. Idle collections take at most a fiftieth of the worker's time, and there
 * is a pause between them, because most requests leave a root that is not garbage. A request that arrives meanwhile has
 * to wait, so a worker whose collections are long, because the boot script has made many objects, does without.
 *
 * While the collector marks, the reference counts of all visited values are wrong, and its own memory is allocated like
 * the script's: running out of memory there would leave the counts wrong. The collector may therefore use some memory
 * beyond the script's limit.
 *
 * No request is suspended while a collection runs. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"
#include "worker/engine/engine.h"

#include <zend_gc.h>

/* PHP's own values: the number of roots that trigger a collection, the step by which that number adapts, and the number
 * of values that a collection must free to keep the number from rising. */
enum { ROOTS = 10001, ROOTS_STEP = 10000, ROOTS_MAX = 1000000000, WORTHWHILE = 100 };
/* Collections are not postponed beyond this number of roots. */
enum { ROOTS_OF_ONE = 50000 };

static __thread struct {
    bool is_running;
    /* Whether a bailout has left the running collection. The engine believes that it still runs, and would not start
     * another one. */
    bool was_left;
    uint32_t threshold;
    /* The number of roots that the last collection has left, the time of its end, and the CPU time that it has taken. */
    uint32_t alive;
    int64_t ended_at;
    int64_t took;
} collector;

/* For lists of the contents of a few objects; the roots themselves are not on PHP's heap. */
enum { OWN_MEMORY = 16 * 1024 * 1024 };

/* The divisor of the time that an idle thread may spend on collections. */
enum { IDLE_SHARE = 50 };
/* The pause between two collections of an idle thread, and the CPU time beyond which it does not collect again, both in
 * nanoseconds. */
enum { IDLE_PAUSE = 10000000, IDLE_LONGEST = 20000000 };

static int (*php_collect)(void);

static uint32_t roots(void)
{
    zend_gc_status status;
    zend_gc_get_status(&status);
    return status.num_roots;
}

/* Returns the CPU time of the calling thread in nanoseconds. */
static int64_t cpu_time(void)
{
    return shim_read_clock(CLOCK_THREAD_CPUTIME_ID);
}

static int run(void)
{
    const bool was_running = collector.is_running;
    const int64_t began_at = cpu_time();
    collector.is_running = true;
    shim_memory_limit_extend(OWN_MEMORY);
    int count = php_collect();
    shim_memory_limit_apply();
    collector.is_running = was_running;
    collector.alive = roots();
    collector.ended_at = shim_now();
    collector.took = cpu_time() - began_at;
    return count;
}

static bool is_called_by_script(void)
{
    const zend_execute_data *frame = EG(current_execute_data);
    return frame != NULL && frame->func != NULL && frame->func->type == ZEND_INTERNAL_FUNCTION &&
           frame->func->common.function_name != NULL &&
           zend_string_equals_literal(frame->func->common.function_name, "gc_collect_cycles");
}

/* Called by the engine to collect. */
static int collect(void)
{
    const bool is_request = shim_own_worker.serving && shim_current != NULL && shim_current != shim_own_worker.boot;
    if (is_request && !is_called_by_script() && roots() < ROOTS_OF_ONE) {
        return 0;
    }
    return run();
}

bool shim_is_collecting(void)
{
    return collector.is_running;
}

void shim_collector_unprotect(void)
{
    if (collector.is_running) {
        collector.is_running = false;
        collector.was_left = true;
    }
    if (!collector.was_left) {
        gc_protect(false);
    }
}

void shim_collector_forget(void)
{
    memset(&collector, 0, sizeof(collector));
    collector.threshold = ROOTS;
}

void shim_collector_collect(void)
{
    (void)run();
}

bool shim_collector_is_due(void)
{
    return roots() >= collector.threshold && gc_enabled() && !collector.was_left;
}

int64_t shim_collector_idle_wait(void)
{
    if (roots() <= collector.alive || !gc_enabled() || collector.was_left || collector.took > IDLE_LONGEST) {
        return -1;
    }
    const int64_t pause = IDLE_SHARE * collector.took;
    const int64_t left = collector.ended_at + (pause > IDLE_PAUSE ? pause : IDLE_PAUSE) - shim_now();
    return left > 0 ? left : 0;
}

void shim_collector_run(void)
{
    const int count = run();
    if (count >= WORTHWHILE && collector.threshold > ROOTS) {
        collector.threshold -= ROOTS_STEP;
    } else if (count < WORTHWHILE && collector.threshold < ROOTS_MAX) {
        collector.threshold = roots() + ROOTS_STEP;
    }
}

void shim_collector_install(void)
{
    php_collect = gc_collect_cycles;
    gc_collect_cycles = collect;
}
