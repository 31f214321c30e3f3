/* Calls that wait, and which of them may suspend their request. */
#ifndef SVC_SHIM_HOOKS_H
#define SVC_SHIM_HOOKS_H

#include "shim.h"

#include <stdbool.h>
#include <stdint.h>

/* Sets which hooks are in effect, one bit each. Called before any thread runs PHP. */
void shim_hooks_install(uint32_t hooks);
/* Whether a call suspends its request while it waits: the hook is in effect, and a request with a fiber is running. For
 * PHP's functions. */
bool shim_hook_is_on(shim_hook hook);
/* Whether the hook is in effect and `caller` belongs to a known library (worker/hooks/callers.h), with or without a fiber. */
bool shim_hook_is_in_effect_for(shim_hook hook, const void *caller);
/* Whether a replacement of a libc function suspends its request: shim_hook_is_on, and `caller` is in a known library. */
bool shim_hook_is_on_for(shim_hook hook, const void *caller);
/* Counts a call that blocks its thread. */
void shim_hook_blocks(shim_hook hook, shim_obstacle obstacle);

/* The return address of the function that uses this macro. */
#define SHIM_CALLER __builtin_return_address(0)

#endif
