/* The host that embeds PHP: it receives output, describes requests and writes the log. */
#include "compat.h"
#include "php/context/context.h"
#include "shim.h"

shim_callbacks shim_host;

bool shim_host_listen(const shim_callbacks *callbacks)
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

/* Parameters are unused below. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static bool accept_output(void *request, shim_view output)
{
    return true;
}

static bool accept_flush(void *request)
{
    return true;
}

static void return_no_text(void *request, shim_view *out)
{
    *out = (shim_view){0};
}

static void cancel_job(void (*job)(void *data, bool runs), void *data)
{
    job(data, false);
}

static bool be_complete(shim_completion *completion, uint32_t waiter)
{
    return true;
}

static void return_no_trace(void *request, uint64_t span, shim_view *out)
{
    return_no_text(request, out);
}

static shim_dispatched refuse_dispatch(void *request, uint64_t span, shim_payload *input, bool pins_code, shim_task **task,
                                     uint64_t *id, uint64_t *bound)
{
    free(input);
    return SHIM_TASK_OFF;
}

static shim_task *share_same(shim_task *task)
{
    return task;
}

static shim_task_state return_lost(shim_task *task, const shim_payload **answer, shim_view *why)
{
    *why = shim_view_of(ZEND_STRL("the task belongs to another process"));
    return SHIM_TASK_LOST;
}

static size_t return_no_winner(shim_task_watch *watch)
{
    return SIZE_MAX;
}

static void free_answer(void *request, const shim_view *thrown, shim_payload *answer)
{
    free(answer);
}

/* Output is accepted and discarded, nothing can be read or begun, and predicates return false. */
static void fill_with_defaults(shim_callbacks *host)
{
    void (*const zero)(void) = (void (*)(void))return_zero;
    for (size_t at = offsetof(shim_callbacks, io); at < sizeof(*host); at += sizeof(zero)) {
        memcpy((char *)host + at, &zero, sizeof(zero));
    }
    host->io.write = accept_output;
    host->io.flush = accept_flush;
    host->completion.wait = be_complete;
    host->helper.run = cancel_job;
    host->span.traceparent = return_no_trace;
    host->span.tracestate = return_no_text;
    host->task.dispatch = refuse_dispatch;
    host->task.share = share_same;
    host->task.state = return_lost;
    host->task.winner = return_no_winner;
    host->task.settle = free_answer;
}

void shim_host_forget(void (*log)(void *request, const shim_log *record))
{
    const shim_callbacks own = shim_host;
    fill_with_defaults(&shim_host);
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
