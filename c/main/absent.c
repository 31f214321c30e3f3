/* Functions of shim.h that belong to features which this build does not have. The start refuses the settings that would
 * call them (install.c). */
#include "compat.h"
#include "shim.h"

/* Parameters are unused below. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define ABSENT(type, name, parameters, ...) \
    type name parameters \
    { \
        return __VA_ARGS__; \
    }

#ifndef SVC_WORKER
ABSENT(shim_outcome, shim_boot, (const shim_request *request, void *host, const shim_worker_info *info), SHIM_FATAL)
ABSENT(shim_outcome, shim_boot_for_tasks, (const shim_request *request, void *host, const shim_worker_info *info), SHIM_FATAL)
ABSENT(size_t, shim_tasks_wake_cancelled, (void), 0)
ABSENT(void, shim_worker_leaves, (shim_view reason), )
ABSENT(shim_progress, shim_request_start, (const shim_request *request, void *host), SHIM_NOTHING)
ABSENT(void, shim_request_here, (const shim_request *request, void *host), )
ABSENT(shim_progress, shim_fiber_resume, (void), SHIM_NOTHING)
ABSENT(size_t, shim_poll, (void), 0)
ABSENT(size_t, shim_wait, (int64_t longest), 0)
ABSENT(size_t, shim_waiters_notify, (uint32_t group), 0)
ABSENT(int, shim_wake_descriptor, (void), -1)
ABSENT(void, shim_worker_facts_read, (shim_worker_facts *facts), (void)(*facts = (shim_worker_facts){0}))
ABSENT(void, shim_worker_collect_garbage, (void), )
ABSENT(int64_t, shim_worker_idle_wait, (void), -1)
ABSENT(shim_view, shim_library_without_hooks, (size_t index), (shim_view){0})
ABSENT(shim_view, shim_state_unclassified, (void), (shim_view){0})
ABSENT(bool, shim_state_mismatch, (size_t index, shim_mismatch *mismatch), false)
ABSENT(bool, shim_state_span, (size_t index, shim_span *span), false)
#endif

#ifndef SVC_ASYNC
ABSENT(void, shim_payload_free, (shim_payload *payload), free(payload))
#endif
