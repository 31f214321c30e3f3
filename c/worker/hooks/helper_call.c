/* A libc call that a helper thread makes while the request waits for its result.
 *
 * libc waits for name servers in its own code, which calls none of our hooks. So a helper thread makes such a call, and the
 * request waits for a completion. The helper has copies of the arguments and separate memory for the results: the request
 * can give up at any time, and its thread can end; the helper then frees the memory. The request reads the results only
 * once they are complete.
 *
 * State of the helper thread. All signals are blocked, otherwise it would run handlers that scripts have installed. Its
 * environment is the process's; libc's resolver reads no other one, on any thread, so putenv() in a request never affects
 * name resolution. Its locale is the process's; a call that depends on the request's locale passes it along. It shares the
 * working directory and the umask with the thread that started it, and creates no files. */
#include "compat.h"
#include "php/context/context.h"
#include "php/libc/libc.h"
#include "worker/hooks/hooks.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

enum { SIDES = 2 };

void *shim_helper_call_new(size_t size, void (*make)(shim_helper_call *), void (*discard)(shim_helper_call *))
{
    shim_helper_call *call = calloc(1, size);
    if (call == NULL) {
        shim_hook_blocks(SHIM_HOOK_DNS, SHIM_OBSTACLE_MEMORY);
        return NULL;
    }
    call->make = make;
    call->discard = discard;
    call->owners = 1;
    return call;
}

void shim_helper_call_release(shim_helper_call *call)
{
    if (__atomic_sub_fetch(&call->owners, 1, __ATOMIC_ACQ_REL) == 0) {
        if (call->discard != NULL) {
            call->discard(call);
        }
        free(call);
    }
}

static void make_here(shim_helper_call *call)
{
    errno = call->error;
    h_errno = call->host_error;
    call->make(call);
    call->error = errno;
    call->host_error = h_errno;
    call->is_made = true;
}

/* Runs on the helper thread: makes the call, completes it and releases it. */
static void help(void *data, bool runs)
{
    shim_helper_call *call = data;
    /* A request that has given up has released its share. */
    if (runs && __atomic_load_n(&call->owners, __ATOMIC_RELAXED) == SIDES) {
        make_here(call);
    }
    shim_host.completion.complete(call->completer);
    shim_helper_call_release(call);
}

/* Starts the call with all signals blocked: a thread inherits the signal mask of the thread that starts it. */
static void ask_for_help(shim_helper_call *call)
{
    sigset_t all, own;
    sigfillset(&all);
    (void)NEXT(pthread_sigmask)(SIG_SETMASK, &all, &own);
    shim_host.helper.run(help, call);
    (void)NEXT(pthread_sigmask)(SIG_SETMASK, &own, NULL);
}

static shim_waited wait_for(shim_helper_call *call, shim_completion *completion)
{
    const shim_wait_set set = {.completions = &completion, .completion_count = 1};
    shim_waited waited = SHIM_WAITED_CHECK;
    bool is_complete = shim_host.completion.is_complete(completion);
    while (!is_complete && waited == SHIM_WAITED_CHECK) {
        waited = shim_hooked_wait(SHIM_HOOK_DNS, &set);
        is_complete = shim_host.completion.is_complete(completion);
    }
    if (!is_complete) {
        return waited;
    }
    if (!call->is_made) {
        shim_hook_blocks(SHIM_HOOK_DNS, SHIM_OBSTACLE_HELPERS);
        return SHIM_WAITED_BLOCK;
    }
    return SHIM_WAITED_CHECK;
}

shim_waited shim_helper_call_wait(shim_helper_call *call)
{
    const int error = errno;
    shim_completion *completion = NULL;
    shim_waited waited = shim_hooked_may_wait(SHIM_HOOK_DNS);
    if (waited == SHIM_WAITED_CHECK && !shim_host.completion.make(&completion, &call->completer)) {
        shim_hook_blocks(SHIM_HOOK_DNS, SHIM_OBSTACLE_MEMORY);
        waited = SHIM_WAITED_BLOCK;
    }
    if (waited == SHIM_WAITED_CHECK) {
        call->error = error;
        call->host_error = h_errno;
        call->owners = SIDES;
        ask_for_help(call);
        waited = wait_for(call, completion);
        shim_host.completion.drop(completion);
    }
    errno = error;
    if (waited == SHIM_WAITED_CHECK) {
        errno = call->error;
        h_errno = call->host_error;
    } else {
        shim_helper_call_release(call);
    }
    return waited;
}
