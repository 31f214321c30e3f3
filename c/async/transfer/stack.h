/* The space that is left on the current stack. */
#ifndef SVC_SHIM_STACK_H
#define SVC_SHIM_STACK_H

#include "compat.h"
#include "php/bailout/overflow.h"

#include <zend_call_stack.h>

/* Reserved for the calls at the end of a recursion, where PHP does not keep a reserve of its own. */
enum { SHIM_STACK_RESERVE = 64 * 1024 };

/* Whether a recursion must not go deeper: PHP would stop a script here, or, if that is disabled
 * (zend.max_allowed_stack_size), the stack ends soon. */
static inline bool shim_stack_is_short(void)
{
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t limit = 0;
#ifdef ZEND_CHECK_STACK_LIMIT
    limit = (uintptr_t)EG(stack_limit);
#endif
    if (UNEXPECTED(limit == 0)) {
        limit = (uintptr_t)shim_overflow_end() + SHIM_STACK_RESERVE;
    }
    return UNEXPECTED(here <= limit);
}

#endif
