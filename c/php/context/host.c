/* The host that embeds PHP: it receives output, describes requests and writes the log. */
#include "compat.h"
#include "php/context/context.h"
#include "shim.h"

shim_callbacks shim_host;

/* ---- defaults for hosts that leave an entry out ---- */

static bool take_output(void *request, shim_view output)
{
    (void)request;
    (void)output;
    return true;
}

static bool do_flush(void *request)
{
    (void)request;
    return true;
}

static void take_head(void *request, const shim_head *head)
{
    (void)request;
    (void)head;
}

static void do_nothing(void *request)
{
    (void)request;
}

static bool is_not_behind(void *request, shim_task *task)
{
    (void)request;
    (void)task;
    return false;
}

static size_t read_nothing(void *request, char *buffer, size_t size)
{
    (void)request;
    (void)buffer;
    (void)size;
    return 0;
}

static size_t read_nothing_at(void *request, char *buffer, size_t size, uint64_t offset)
{
    (void)offset;
    return read_nothing(request, buffer, size);
}

static void say_nothing(void *request, shim_view *out)
{
    (void)request;
    *out = (shim_view){0};
}

static int64_t purge_nothing(void *request, shim_purge what, const shim_view *names, size_t count)
{
    (void)request;
    (void)what;
    (void)names;
    (void)count;
    return 0;
}

static void list_nothing(void *request, shim_pairs *out)
{
    (void)request;
    *out = (shim_pairs){0};
}

static void drop_error(const shim_log *record)
{
    (void)record;
}

static void drop_record(void *request, const shim_log *record)
{
    (void)request;
    (void)record;
}

static bool is_not(void *request)
{
    (void)request;
    return false;
}

static void has_ended(void *request, int outcome)
{
    (void)request;
    (void)outcome;
}

static void has_waited(void *request, uint64_t microseconds)
{
    (void)request;
    (void)microseconds;
}

static void has_blocked(void *request, shim_hook hook, shim_obstacle obstacle)
{
    (void)request;
    (void)hook;
    (void)obstacle;
}

static bool make_none(shim_completion **completion, shim_completer **completer)
{
    (void)completion;
    (void)completer;
    return false;
}

static void complete_none(shim_completer *completer)
{
    (void)completer;
}

static bool wait_for_none(shim_completion *completion, uint32_t waiter)
{
    (void)completion;
    (void)waiter;
    return true;
}

static void leave_none(shim_completion *completion)
{
    (void)completion;
}

static bool is_incomplete(shim_completion *completion)
{
    (void)completion;
    return false;
}

static void refuse_job(void (*job)(void *data, bool runs), void *data)
{
    job(data, false);
}

static bool may_not_begin(void)
{
    return false;
}

static void hear_nothing(void)
{
}

static void ignore_start(bool uses_cache)
{
    (void)uses_cache;
}

static uint64_t no_span(void *request)
{
    (void)request;
    return 0;
}

static uint64_t begin_none(void *request, uint64_t parent, shim_view name, shim_span_kind kind)
{
    (void)request;
    (void)parent;
    (void)name;
    (void)kind;
    return 0;
}

static void ignore_attribute(void *request, uint64_t span, const shim_attribute *attribute)
{
    (void)request;
    (void)span;
    (void)attribute;
}

static void ignore_event(void *request, uint64_t span, shim_view name, const shim_attribute *attributes, size_t count)
{
    (void)request;
    (void)span;
    (void)name;
    (void)attributes;
    (void)count;
}

static void ignore_status(void *request, uint64_t span, shim_span_status status, shim_view description)
{
    (void)request;
    (void)span;
    (void)status;
    (void)description;
}

static void ignore_span(void *request, uint64_t span)
{
    (void)request;
    (void)span;
}

static void ignore_end(void *request, uint64_t span, bool is_cut)
{
    (void)request;
    (void)span;
    (void)is_cut;
}

static void say_no_trace(void *request, uint64_t span, shim_view *out)
{
    (void)span;
    say_nothing(request, out);
}

static void ignore_failure(void *request, shim_view class_name, shim_view message, shim_view trace, bool is_exception)
{
    (void)request;
    (void)class_name;
    (void)message;
    (void)trace;
    (void)is_exception;
}

static void ignore_call(void *request, uint64_t span, const shim_client_call *call)
{
    (void)request;
    (void)span;
    (void)call;
}

static void ignore_call_end(void *request, uint64_t span, const shim_client_end *end)
{
    (void)request;
    (void)span;
    (void)end;
}

static uint64_t no_bytes(void)
{
    return 0;
}

static shim_dispatched dispatch_none(void *request, uint64_t span, shim_parcel *input, bool pins_code, shim_task **task,
                                     uint64_t *id, uint64_t *bound)
{
    (void)request;
    (void)span;
    (void)pins_code;
    (void)task;
    (void)id;
    (void)bound;
    free(input);
    return SHIM_TASK_OFF;
}

static shim_task *share_none(shim_task *task)
{
    return task;
}

static void ignore_task(shim_task *task)
{
    (void)task;
}

static shim_task_state is_lost(shim_task *task, const shim_parcel **answer, shim_view *why)
{
    (void)task;
    (void)answer;
    *why = shim_view_of(ZEND_STRL("the task belongs to another process"));
    return SHIM_TASK_LOST;
}

static bool cancel_none(shim_task *task)
{
    (void)task;
    return false;
}

static shim_task_watch *watch_none(shim_task *const *tasks, size_t count, shim_watch_mode mode, shim_completion **completion)
{
    (void)tasks;
    (void)count;
    (void)mode;
    (void)completion;
    return NULL;
}

static shim_task_watch *watch_no_stranded(shim_task *const *tasks, size_t count, shim_completion **completion)
{
    return watch_none(tasks, count, SHIM_WATCH_ALL, completion);
}

static size_t no_winner(shim_task_watch *watch)
{
    (void)watch;
    return SIZE_MAX;
}

static void unwatch_none(shim_task_watch *watch)
{
    (void)watch;
}

static const shim_parcel *no_input(void *request)
{
    (void)request;
    return NULL;
}

static void settle_none(void *request, const shim_view *thrown, shim_parcel *answer)
{
    (void)request;
    (void)thrown;
    free(answer);
}

static const shim_callbacks nobody = {
    .size = sizeof(shim_callbacks),
    .io =
        {
            .write = take_output,
            .flush = do_flush,
            .send_head = take_head,
            .send_interim = take_head,
            .finish = do_nothing,
            .time_limit = do_nothing,
            .is_gone = is_not,
            .is_crowded = is_not,
            .read_body = read_nothing,
            .read_body_at = read_nothing_at,
            .variables = list_nothing,
            .fields = list_nothing,
            .target = say_nothing,
            .client = say_nothing,
            .request_id = say_nothing,
            .purge = purge_nothing,
            .log = drop_record,
            .error = drop_error,
        },
    .worker =
        {
            .serve = do_nothing,
            .serve_one = is_not,
            .ended = has_ended,
            .freed = do_nothing,
            .parks = do_nothing,
            .resumes = do_nothing,
            .blocks = has_blocked,
            .waited_for_connection = has_waited,
        },
    .completion =
        {
            .make = make_none,
            .complete = complete_none,
            .wait = wait_for_none,
            .stop_waiting = leave_none,
            .look = hear_nothing,
            .is_complete = is_incomplete,
            .drop = leave_none,
        },
    .helper =
        {
            .run = refuse_job,
        },
    .span =
        {
            .own = no_span,
            .begin = begin_none,
            .set_attribute = ignore_attribute,
            .add_event = ignore_event,
            .set_status = ignore_status,
            .end = ignore_end,
            .traceparent = say_no_trace,
            .tracestate = say_nothing,
            .fail = ignore_failure,
        },
    .client =
        {
            .describe = ignore_call,
            .finish = ignore_call_end,
            .discard = ignore_span,
        },
    .restart =
        {
            .may_begin = may_not_begin,
            .done = hear_nothing,
            .wanted = hear_nothing,
            .worker_started = ignore_start,
        },
    .task =
        {
            .bytes_max = no_bytes,
            .dispatch = dispatch_none,
            .share = share_none,
            .drop = ignore_task,
            .state = is_lost,
            .cancel = cancel_none,
            .detach = ignore_task,
            .is_owned = cancel_none,
            .strand = ignore_task,
            .watch = watch_none,
            .watch_stranded = watch_no_stranded,
            .winner = no_winner,
            .unwatch = unwatch_none,
            .input = no_input,
            .leave_cache = do_nothing,
            .settle = settle_none,
            .is_cancelled = is_not,
            .is_behind = is_not_behind,
        },
};

/* ---- the table ---- */

#define OR_NOBODY(entry) (shim_host.entry = callbacks->entry != NULL ? callbacks->entry : nobody.entry)

void shim_host_listen(const shim_callbacks *callbacks)
{
    shim_host.size = callbacks->size;
    OR_NOBODY(io.write);
    OR_NOBODY(io.flush);
    OR_NOBODY(io.send_head);
    OR_NOBODY(io.send_interim);
    OR_NOBODY(io.finish);
    OR_NOBODY(io.time_limit);
    OR_NOBODY(io.is_gone);
    OR_NOBODY(io.is_crowded);
    OR_NOBODY(io.read_body);
    OR_NOBODY(io.read_body_at);
    OR_NOBODY(io.variables);
    OR_NOBODY(io.fields);
    OR_NOBODY(io.target);
    OR_NOBODY(io.client);
    OR_NOBODY(io.request_id);
    OR_NOBODY(io.purge);
    OR_NOBODY(io.log);
    OR_NOBODY(io.error);
    OR_NOBODY(worker.serve);
    OR_NOBODY(worker.serve_one);
    OR_NOBODY(worker.ended);
    OR_NOBODY(worker.freed);
    OR_NOBODY(worker.parks);
    OR_NOBODY(worker.resumes);
    OR_NOBODY(worker.blocks);
    OR_NOBODY(worker.waited_for_connection);
    OR_NOBODY(completion.make);
    OR_NOBODY(completion.complete);
    OR_NOBODY(completion.look);
    OR_NOBODY(helper.run);
    OR_NOBODY(span.own);
    OR_NOBODY(span.begin);
    OR_NOBODY(span.set_attribute);
    OR_NOBODY(span.add_event);
    OR_NOBODY(span.set_status);
    OR_NOBODY(span.end);
    OR_NOBODY(span.traceparent);
    OR_NOBODY(span.tracestate);
    OR_NOBODY(span.fail);
    OR_NOBODY(client.describe);
    OR_NOBODY(client.finish);
    OR_NOBODY(client.discard);
    OR_NOBODY(task.bytes_max);
    OR_NOBODY(task.dispatch);
    OR_NOBODY(task.share);
    OR_NOBODY(task.drop);
    OR_NOBODY(task.state);
    OR_NOBODY(task.cancel);
    OR_NOBODY(task.detach);
    OR_NOBODY(task.is_owned);
    OR_NOBODY(task.strand);
    OR_NOBODY(task.watch);
    OR_NOBODY(task.watch_stranded);
    OR_NOBODY(task.winner);
    OR_NOBODY(task.unwatch);
    OR_NOBODY(task.input);
    OR_NOBODY(task.leave_cache);
    OR_NOBODY(task.settle);
    OR_NOBODY(task.is_cancelled);
    OR_NOBODY(task.is_behind);
    OR_NOBODY(completion.wait);
    OR_NOBODY(completion.stop_waiting);
    OR_NOBODY(completion.is_complete);
    OR_NOBODY(completion.drop);
    OR_NOBODY(restart.may_begin);
    OR_NOBODY(restart.done);
    OR_NOBODY(restart.wanted);
    OR_NOBODY(restart.worker_started);
}

void shim_host_forget(void (*log)(void *request, const shim_log *record))
{
    const shim_callbacks own = shim_host;
    shim_host = nobody;
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
