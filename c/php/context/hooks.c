/* Hooks by which other features take part in a request; classic mode is complete without them.
 *
 * The tables do not change once PHP has started. */
#include "compat.h"
#include "php/context/context.h"

const shim_request_hooks *shim_request_hooks_list[SHIM_REQUEST_HOOKS_MAX + 1];
shim_wait_table shim_wait_hooks;

void shim_request_hooks_register(const shim_request_hooks *hooks)
{
    size_t count = 0;
    while (shim_request_hooks_list[count] != NULL) {
        count++;
    }
    ZEND_ASSERT(count < SHIM_REQUEST_HOOKS_MAX);
    shim_request_hooks_list[count] = hooks;
}
