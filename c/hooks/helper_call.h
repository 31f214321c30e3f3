/* A call of libc that a helper thread makes, while the request that wants its result waits. */
#ifndef SVC_SHIM_HELPER_CALL_H
#define SVC_SHIM_HELPER_CALL_H

#include "hooks/hooked_wait.h"
#include "shim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first member of a struct that holds copies of all arguments, and the results later. Two sides own it, the request and
 * the helper thread; whoever lets go of it last discards it. Between the beginning of the wait and its end, the request
 * does not touch it. */
typedef struct shim_helper_call {
    /* Makes the call. On the helper thread, which has nothing of the request but errno and h_errno. */
    void (*make)(struct shim_helper_call *call);
    /* Frees the struct, with results that nobody has taken. On either thread. */
    void (*discard)(struct shim_helper_call *call);
    /* errno and h_errno, those of the caller before the call and those that it has left. */
    int error;
    int host_error;
    shim_completer *completer;
    uint32_t owners;
    bool is_made;
} shim_helper_call;

/* Allocates one of `size` bytes; NULL if out of memory, which has been counted: the caller calls libc. */
void *shim_helper_call_new(shim_hook hook, size_t size, void (*make)(shim_helper_call *), void (*discard)(shim_helper_call *));
/* Waits until it has been made. Returns SHIM_WAITED_LOOK, with errno and h_errno as the call has left them; the caller takes
 * the results and calls shim_helper_call_release. Otherwise it has been released: SHIM_WAITED_OVER if the request is to wait
 * no more, SHIM_WAITED_BLOCK if the caller has to call libc. */
shim_waited shim_helper_call_wait(shim_hook hook, shim_helper_call *call);
void shim_helper_call_release(shim_helper_call *call);

#endif
