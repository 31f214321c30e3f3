/* The space that is left on the current stack. */
#ifndef SVC_SHIM_STACK_H
#define SVC_SHIM_STACK_H

#include "compat.h"
#include "php/bailout/bailout.h"

#include <zend_call_stack.h>

/* Reserved for the calls at the end of a recursion, where PHP does not keep a reserve of its own. */
enum { SHIM_STACK_RESERVE = 64 * 1024 };

/* Returns the stack space that a recursion may still use: up to the point where PHP stops scripts, or, if that is
 * disabled (zend.max_allowed_stack_size), up to the end. */
static inline size_t shim_stack_left(void)
{
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t limit = 0;
#ifdef ZEND_CHECK_STACK_LIMIT
    limit = (uintptr_t)EG(stack_limit);
#endif
    if (UNEXPECTED(limit == 0)) {
        limit = (uintptr_t)shim_overflow_end() + SHIM_STACK_RESERVE;
    }
    return here > limit ? here - limit : 0;
}

/* Whether a recursion must not go deeper. */
static inline bool shim_stack_is_short(void)
{
    return UNEXPECTED(shim_stack_left() == 0);
}

/* Returns how many levels of a recursion in PHP's own code fit, at this number of bytes each. */
static inline size_t shim_stack_levels(size_t bytes)
{
    return shim_stack_left() / bytes;
}

#endif
