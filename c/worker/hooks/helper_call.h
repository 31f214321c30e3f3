/* A libc call that a helper thread makes while the request waits for its result. */
#ifndef SVC_SHIM_HELPER_CALL_H
#define SVC_SHIM_HELPER_CALL_H

#include "shim.h"
#include "worker/hooks/hooked_wait.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first member of a struct that holds copies of all arguments and, later, the results. The request and the helper
 * thread each own a reference; the last release discards the struct. During the wait, only the helper accesses it. */
typedef struct shim_helper_call {
    /* Makes the call on the helper thread, which shares only errno and h_errno with the request. */
    void (*make)(struct shim_helper_call *call);
    /* Frees the struct and any results that the request has not taken. On either thread. */
    void (*discard)(struct shim_helper_call *call);
    /* errno and h_errno: the caller's before the call, the call's after it. */
    int error;
    int host_error;
    shim_completer *completer;
    uint32_t owners;
    bool is_made;
} shim_helper_call;

/* Allocates a call of `size` bytes. Returns NULL if out of memory, which it counts: the caller calls libc. */
void *shim_helper_call_new(shim_hook hook, size_t size, void (*make)(shim_helper_call *), void (*discard)(shim_helper_call *));
/* Runs the call on a helper thread and waits for it. After SHIM_WAITED_LOOK, errno and h_errno are those of the call; the
 * caller takes the results and calls shim_helper_call_release. Any other result means that the call has been released:
 * SHIM_WAITED_OVER if the request may no longer wait, SHIM_WAITED_BLOCK if the caller has to call libc. */
shim_waited shim_helper_call_wait(shim_hook hook, shim_helper_call *call);
void shim_helper_call_release(shim_helper_call *call);

#endif
