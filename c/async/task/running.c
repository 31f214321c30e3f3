/* The running side of a task: the code that its fiber runs instead of a request's handler.
 *
 * Invariants. A task is settled here if its function returns or throws; in all other cases (a fatal error, the loss of
 * its thread), the host settles it. An exception of the function is the task's answer and is not reported elsewhere. */
#include "async/task/task.h"
#include "async/transfer/transfer.h"
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"
#include "worker/request/request.h"
#include "worker/stack/stack.h"

/* The time that a cancelled task may continue before it is unwound. */
#define GRACE_NS INT64_C(1000000000)

typedef struct task_call {
    zval closure;
    zval *arguments;
    uint32_t count;
    zval result;
} task_call;

/* Unpacks the function and its arguments on this thread. Returns false if an exception is thrown. */
static bool take_call(const shim_payload *payload, task_call *call)
{
    shim_unpacker unpacker;
    uint64_t count = 0;
    shim_unpacker_begin(&unpacker, payload);
    bool is_whole = shim_unpack_code(&unpacker, &call->closure);
    if (!shim_opcache_is_used() && shim_current->host != NULL) {
        shim_host.task.leave_cache(shim_current->host);
    }
    is_whole = is_whole && shim_unpack_number(&unpacker, &count);
    if (is_whole && count > 0) {
        call->arguments = safe_emalloc(count, sizeof(zval), 0);
        while (is_whole && call->count < count) {
            is_whole = shim_unpack_value(&unpacker, &call->arguments[call->count]);
            call->count += is_whole;
        }
    }
    /* Calls __unserialize and __wakeup of the objects. */
    return shim_unpacker_end(&unpacker) && is_whole && EG(exception) == NULL;
}

static void free_call(task_call *call)
{
    for (uint32_t i = 0; i < call->count; i++) {
        zval_ptr_dtor(&call->arguments[i]);
    }
    if (call->arguments != NULL) {
        efree(call->arguments);
    }
    zval_ptr_dtor(&call->result);
    shim_code_release(&call->closure);
}

static void invoke(task_call *call)
{
    zend_fcall_info info;
    zend_fcall_info_cache cache;
    if (zend_fcall_info_init(&call->closure, 0, &info, &cache, NULL, NULL) != SUCCESS) {
        return;
    }
    info.retval = &call->result;
    info.params = call->arguments;
    info.param_count = call->count;
    (void)zend_call_function(&info, &cache);
    if (Z_ISREF(call->result)) {
        zend_unwrap_reference(&call->result);
    }
}

/* Settles the task with its result, or with its exception, which `thrown` then describes. */
static void settle(const shim_view *thrown, shim_packer *packer)
{
    shim_payload *payload = shim_packer_finish(packer);
    if (payload != NULL && shim_current->host != NULL) {
        shim_host.task.settle(shim_current->host, thrown, payload);
    } else {
        free(payload);
    }
}

static void begin_packer(shim_packer *packer)
{
    shim_packer_begin(packer, (size_t)shim_host.task.bytes_max());
}

static void settle_with_text(const char *text)
{
    shim_packer packer;
    const shim_view thrown = shim_view_of_cstr(text);
    begin_packer(&packer);
    shim_pack_number(&packer, SHIM_ANSWER_FAILURE);
    shim_pack_failure_text(&packer, thrown);
    settle(&thrown, &packer);
}

/* Describes an exception for the log, in case the task is never awaited. */
static zend_string *describe(zend_object *exception)
{
    zval room;
    zend_class_entry *base = instanceof_function(exception->ce, zend_ce_exception) ? zend_ce_exception : zend_ce_error;
    zval *message = zend_read_property(base, exception, ZEND_STRL("message"), true, &room);
    zval *file = zend_read_property(base, exception, ZEND_STRL("file"), true, &room);
    zval *line = zend_read_property(base, exception, ZEND_STRL("line"), true, &room);
    return zend_strpprintf(0, "%s: %s in %s:" ZEND_LONG_FMT, ZSTR_VAL(exception->ce->name),
                           Z_TYPE_P(message) == IS_STRING ? Z_STRVAL_P(message) : "",
                           Z_TYPE_P(file) == IS_STRING ? Z_STRVAL_P(file) : "",
                           Z_TYPE_P(line) == IS_LONG ? Z_LVAL_P(line) : 0);
}

/* Settles the task with a thrown exception: of its function, or because a value could not be sent. */
static void settle_thrown(bool is_ours)
{
    zend_object *exception = EG(exception);
    const bool is_transfer = is_ours && instanceof_function(exception->ce, shim_transfer_exception);
    if (shim_is_exit(exception)) {
        settle_with_text("the task has called exit()");
        return;
    }
    EG(exception) = NULL;
    shim_packer packer;
    begin_packer(&packer);
    shim_pack_number(&packer, is_transfer ? SHIM_ANSWER_TRANSFER : SHIM_ANSWER_FAILURE);
    if (shim_pack_failure(&packer, exception)) {
        zend_string *thrown = describe(exception);
        settle(&(shim_view){.bytes = ZSTR_VAL(thrown), .length = ZSTR_LEN(thrown)}, &packer);
        zend_string_release(thrown);
    } else {
        shim_packer_abandon(&packer);
    }
    if (EG(exception) != NULL) {
        zend_clear_exception();
        settle_with_text("what the task has thrown cannot be sent");
    }
    OBJ_RELEASE(exception);
}

static void run_task(shim_fiber *fiber)
{
    (void)fiber;
    const shim_payload *payload = shim_host.task.input(shim_current->host);
    task_call call = {0};
    ZVAL_UNDEF(&call.closure);
    ZVAL_UNDEF(&call.result);
    if (payload == NULL) {
        return;
    }
    bool is_ours = !take_call(payload, &call);
    if (!is_ours) {
        invoke(&call);
    }
    if (EG(exception) == NULL) {
        is_ours = true;
        shim_packer packer;
        begin_packer(&packer);
        if (shim_pack_value(&packer, "the result", &call.result)) {
            settle(NULL, &packer);
        } else {
            shim_packer_abandon(&packer);
        }
    }
    if (EG(exception) != NULL) {
        settle_thrown(is_ours);
    }
    free_call(&call);
}

/* Called between two instructions of a script. Throws a CancelledException in a task that has been cancelled inside a
 * call of C code, once the call has returned. If the call has thrown, which is how a driver reports a failed wait, its
 * exception becomes the previous one: PHP interrupts once, and would not call this again after the exception has been
 * caught. A task that continues nevertheless is unwound by an exit that no script can catch. */
static void on_interrupt(void)
{
    if (shim_current != NULL && shim_current->owes_cancelled) {
        shim_current->owes_cancelled = false;
        shim_cancelled_throw();
        return;
    }
    if (EG(exception) == NULL && shim_is_cancelled() && shim_current->host != NULL &&
        shim_now() - shim_current->cancelled_at >= GRACE_NS) {
        zend_throw_graceful_exit();
    }
}

void shim_task_runner_install(void)
{
    shim_run_task = run_task;
    shim_on_interrupt = on_interrupt;
    shim_throw_cancelled = shim_cancelled_throw;
}
