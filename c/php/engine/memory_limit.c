/* The memory limit of a worker's requests.
 *
 * The heap belongs to the thread, and so does the limit that it enforces: the limit is set for the running request.
 * Memory that bailouts have left allocated belongs to no request, and is added to the limit. */
#include "compat.h"
#include "php/engine/engine.h"

/* The memory that bailouts have left allocated on this thread since its worker booted. */
static __thread size_t left_behind;

void shim_memory_limit_lift(void)
{
    (void)zend_set_memory_limit(SIZE_MAX / 2);
}

void shim_memory_limit_extend(size_t bytes)
{
    size_t limit = PG(memory_limit) > 0 ? (size_t)PG(memory_limit) + left_behind + bytes : SIZE_MAX / 2;
    if (zend_set_memory_limit(limit) != SUCCESS) {
        (void)zend_set_memory_limit(zend_memory_usage(true) + bytes);
    }
}

void shim_memory_limit_apply(void)
{
    shim_memory_limit_extend(0);
}

/* Whether the heap uses more than half of the limit. */
static bool is_heap_large(void)
{
    return PG(memory_limit) > 0 && zend_memory_usage(true) > (size_t)PG(memory_limit) / 2;
}

/* Measures the memory that a bailout has left behind. Memory that the error itself used beyond the limit is free again,
 * in small pieces, which the heap keeps until it is asked to release them. */
void shim_memory_limit_after_jump(void)
{
    if (is_heap_large()) {
        (void)zend_mm_gc(zend_mm_get_heap());
    }
    if (is_heap_large()) {
        left_behind = zend_memory_usage(true);
    }
    shim_memory_limit_apply();
}

void shim_memory_limit_forget(void)
{
    left_behind = 0;
}
