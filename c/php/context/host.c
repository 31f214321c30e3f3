/* The host that embeds PHP: it receives output, describes requests and writes the log. */
#include "compat.h"
#include "php/context/context.h"
#include "shim.h"

shim_callbacks shim_host;

bool shim_host_install(const shim_callbacks *callbacks)
{
    shim_host = *callbacks;
    size_t at = offsetof(shim_callbacks, io);
    while (at < sizeof(shim_host) && *(void *const *)((const char *)callbacks + at) != NULL) {
        at += sizeof(void *);
    }
    return at == sizeof(shim_host);
}

/* ---- a forked child, which has no host ---- */

/* Replaces all callbacks that return false, 0, NULL or nothing, whatever their arguments. The C standard does not define
 * such a call; the calling conventions of x86-64 and AArch64 do: the caller places and removes the arguments, and each of
 * these results is in the register of a uintptr_t. Callbacks that return a floating-point number or a struct would need
 * functions of their own, and so would all of them in a build that checks the types of calls (-fsanitize=cfi-icall, kcfi or
 * function). */
static uintptr_t return_zero(void)
{
    return 0;
}

/* Returns true in the same way. */
static uintptr_t return_one(void)
{
    return 1;
}

void shim_host_forget(void (*log)(void *request, const shim_log *record))
{
    const shim_callbacks own = shim_host;
    void (*const zero)(void) = (void (*)(void))return_zero;
    for (size_t at = offsetof(shim_callbacks, io); at < sizeof(shim_host); at += sizeof(zero)) {
        memcpy((char *)&shim_host + at, &zero, sizeof(zero));
    }
    /* Output is accepted and discarded. */
    shim_host.io.write = (__typeof__(shim_host.io.write))(void (*)(void))return_one;
    shim_host.io.flush = (__typeof__(shim_host.io.flush))(void (*)(void))return_one;
    SHIM_CALL_REQUEST_HOOKS(fork, &shim_host);
    shim_host.io.log = log;
    /* These read the child's own copy of the request. The part of the body that had not been read before the fork
     * belongs to the parent: it may be in a file that is closed in the child. */
    shim_host.io.is_gone = own.io.is_gone;
    shim_host.io.variables = own.io.variables;
    shim_host.io.fields = own.io.fields;
    shim_host.io.target = own.io.target;
    shim_host.io.client = own.io.client;
    shim_host.io.request_id = own.io.request_id;
    shim_host.restart.wanted = own.restart.wanted;
    shim_host.restart.worker_started = own.restart.worker_started;
}
