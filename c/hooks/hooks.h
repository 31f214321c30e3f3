/* Calls that wait, and which of them may suspend their request. */
#ifndef SVC_SHIM_HOOKS_H
#define SVC_SHIM_HOOKS_H

#include "shim.h"

#include <stdbool.h>
#include <stdint.h>

/* Sets which hooks are in effect, a bit for each; before any thread runs PHP. */
void shim_hooks_install(uint32_t hooks);
/* Whether a call is to suspend its request while it waits: the hook is in effect, and a request that has a fiber is
 * running. For functions of PHP. */
bool shim_hook_is_on(shim_hook hook);
/* Whether it was chosen, and such a call can be made by `caller` at all. */
bool shim_hook_is_in_effect_for(shim_hook hook, const void *caller);
/* Whether to suspend, for a function that comes before libc's, which `caller` has called: its library
 * must be one of those that can be suspended. */
bool shim_hook_is_on_for(shim_hook hook, const void *caller);
/* Counts a call that blocks its thread. */
void shim_hook_blocks(shim_hook hook, shim_obstacle obstacle);

/* The caller of the function that this appears in. */
#define SHIM_CALLER __builtin_return_address(0)

#endif
