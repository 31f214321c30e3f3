/* Hooks by which other features take part in a request; classic mode is complete without them.
 *
 * The lists do not change once PHP has started. */
#include "compat.h"
#include "php/context/context.h"

shim_request_hook_lists shim_request_hooks_of;
shim_wait_table shim_wait_hooks;

void shim_request_hooks_register(const shim_request_hooks *hooks)
{
    static size_t registered;
    ZEND_ASSERT(registered < SHIM_REQUEST_HOOKS_MAX);
    registered++;
#define HOOK(entry) \
    if (hooks->entry != NULL) { \
        size_t count = 0; \
        while (shim_request_hooks_of.entry[count] != NULL) { \
            count++; \
        } \
        shim_request_hooks_of.entry[count] = hooks->entry; \
    }
    SHIM_REQUEST_HOOKS(HOOK)
#undef HOOK
}
