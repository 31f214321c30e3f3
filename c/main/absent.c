/* Functions of shim.h that belong to features which this build does not have. The start refuses the settings that would
 * call them (install.c). */
#include "compat.h"
#include "shim.h"

/* Parameters are unused below. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#ifndef SVC_WORKER
shim_outcome shim_boot(const shim_request *request, void *host, const shim_worker_info *info) { return SHIM_FATAL; }
shim_outcome shim_boot_for_tasks(const shim_request *request, void *host, const shim_worker_info *info) { return SHIM_FATAL; }
size_t shim_tasks_wake_cancelled(void) { return 0; }
void shim_worker_leaves(shim_view reason) {}
shim_progress shim_request_start(const shim_request *request, void *host) { return SHIM_NOTHING; }
void shim_request_here(const shim_request *request, void *host) {}
shim_progress shim_fiber_resume(void) { return SHIM_NOTHING; }
size_t shim_poll(void) { return 0; }
size_t shim_wait(int64_t longest) { return 0; }
size_t shim_waiters_notify(uint32_t group) { return 0; }
int shim_wake_descriptor(void) { return -1; }
void shim_worker_facts_read(shim_worker_facts *facts) { *facts = (shim_worker_facts){0}; }
void shim_worker_collect_garbage(void) {}
int64_t shim_worker_idle_wait(void) { return -1; }
shim_view shim_library_without_hooks(size_t index) { return (shim_view){0}; }
shim_view shim_state_unclassified(void) { return (shim_view){0}; }
bool shim_state_mismatch(size_t index, shim_mismatch *mismatch) { return false; }
bool shim_state_range(size_t index, shim_state_part *out) { return false; }
#endif

#ifndef SVC_ASYNC
void shim_payload_free(shim_payload *payload) { free(payload); }
#endif
