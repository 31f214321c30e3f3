/* Waiting for tasks, and unpacking their answers.
 *
 * The host watches all tasks of a wait and completes one completion, so that a wait for a thousand tasks is a wait for
 * one event. A request of worker mode and a task park; a request of classic mode blocks its thread. */
#include "async/task/task.h"
#include "async/transfer/transfer.h"
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"
#include "worker/connections/owners/owners.h"
#include "worker/stack/stack.h"

static shim_awaited throw_unable(const char *why)
{
    zend_throw_exception_ex(shim_async_exception, 0, "Tasks cannot be awaited %s", why);
    return SHIM_AWAIT_STOPPED;
}

/* Waits for a completion, by parking if that is possible. Tasks of the same thread can only wait for the caller if it is a
 * task. */
static shim_woken_by wait_for(shim_completion *completion, int64_t deadline, const shim_awaited_tasks *tasks)
{
    const shim_wait_set set = {
        .completions = &completion, .completion_count = 1, .deadline = deadline, .purpose = SHIM_WAITS_FOR_TASKS};
    const bool is_task = shim_current != NULL && shim_current->is_task;
    const shim_woken_by by = is_task ? shim_tasks_await(&set, tasks) : shim_park(&set).by;
    if (by != SHIM_NEVER_PARKED || shim_current == NULL || shim_current->is_task) {
        return by;
    }
    return shim_block(&set);
}

shim_awaited shim_await(shim_task *const *tasks, size_t count, shim_watch_mode mode, int64_t deadline, size_t *winner)
{
    shim_completion *completion = NULL;
    shim_task_watch *watch = shim_host.task.watch(tasks, count, mode, &completion);
    if (watch == NULL) {
        return throw_unable("on this thread");
    }
    shim_woken_by by = SHIM_WOKEN_BY_COMPLETION;
    if (!shim_host.completion.is_complete(completion)) {
        by = wait_for(completion, deadline,
                      &(shim_awaited_tasks){.list = tasks, .count = count, .needs_all = mode != SHIM_WATCH_RACE});
    }
    const bool is_over = shim_host.completion.is_complete(completion);
    *winner = shim_host.task.winner(watch);
    shim_host.completion.drop(completion);
    shim_host.task.unwatch(watch);
    if (by == SHIM_WOKEN_BY_CANCEL) {
        shim_cancelled_throw();
        return SHIM_AWAIT_STOPPED;
    }
    if (is_over) {
        return SHIM_AWAITED;
    }
    if (by == SHIM_WOKEN_BY_REQUEST) {
        return throw_unable("here: they wait for the calling task, directly or through others");
    }
    if (by == SHIM_NEVER_PARKED) {
        return throw_unable("here: the code cannot be suspended inside an output callback, an autoloader, a destructor of "
                            "the collector, or what json_encode(), var_dump() or a comparison calls");
    }
    const bool is_late = deadline != 0 && shim_now() >= deadline;
    return is_late && !zend_atomic_bool_load_ex(&EG(timed_out)) ? SHIM_AWAIT_TIMED_OUT : SHIM_AWAIT_STOPPED;
}

shim_task_state shim_task_state_read(const shim_task_object *object)
{
    const shim_payload *answer;
    shim_view why;
    return shim_host.task.state(object->task, &answer, &why);
}

/* Keeps the exception that has just been thrown as the task's answer. */
static bool keep_failure(shim_task_object *object)
{
    if (EG(exception) != NULL && object->failure == NULL && !shim_is_exit(EG(exception))) {
        object->failure = EG(exception);
        GC_ADDREF(object->failure);
    }
    return false;
}

static bool unpack_result(shim_task_object *object, const shim_payload *payload)
{
    shim_unpacker unpacker;
    shim_unpacker_begin(&unpacker, payload);
    zval result;
    ZVAL_UNDEF(&result);
    bool is_whole = shim_unpack_value(&unpacker, &result);
    /* Calls __unserialize and __wakeup of the objects. */
    is_whole = shim_unpacker_end(&unpacker) && is_whole && EG(exception) == NULL;
    if (is_whole && Z_ISUNDEF(object->result)) {
        ZVAL_COPY_VALUE(&object->result, &result);
    } else {
        zval_ptr_dtor(&result);
    }
    return is_whole;
}

/* Replaces a thrown TaskException by the TransferException that the task's thread has thrown: its previous exception,
 * or a new one with its message. */
static void throw_transfer(void)
{
    zend_object *failure = EG(exception);
    if (failure == NULL || failure->ce != shim_task_exception) {
        return;
    }
    zval room, message;
    zval *previous = zend_read_property(zend_ce_exception, failure, ZEND_STRL("previous"), true, &room);
    if (Z_TYPE_P(previous) == IS_OBJECT && instanceof_function(Z_OBJCE_P(previous), shim_transfer_exception)) {
        zval exception;
        ZVAL_OBJ_COPY(&exception, Z_OBJ_P(previous));
        zend_clear_exception();
        zend_throw_exception_object(&exception);
        return;
    }
    ZVAL_COPY(&message, zend_read_property(zend_ce_exception, failure, ZEND_STRL("message"), true, &room));
    zend_clear_exception();
    (void)shim_transfer_throw("%s", Z_TYPE(message) == IS_STRING ? Z_STRVAL(message) : "");
    zval_ptr_dtor(&message);
}

static void throw_payload(const shim_payload *payload)
{
    shim_unpacker unpacker;
    uint64_t kind = SHIM_ANSWER_FAILURE;
    shim_unpacker_begin(&unpacker, payload);
    if (shim_unpack_number(&unpacker, &kind)) {
        shim_throw_failure(&unpacker);
    }
    shim_unpacker_end(&unpacker);
    if (kind == SHIM_ANSWER_TRANSFER) {
        throw_transfer();
    }
}

bool shim_task_answer(shim_task_object *object, zval *result)
{
    if (object->failure != NULL) {
        GC_ADDREF(object->failure);
        zval failure;
        ZVAL_OBJ(&failure, object->failure);
        zend_throw_exception_object(&failure);
        return false;
    }
    const shim_payload *answer = NULL;
    shim_view why = {0};
    switch (shim_host.task.state(object->task, &answer, &why)) {
    case SHIM_TASK_COMPLETED:
        if (Z_ISUNDEF(object->result) && !unpack_result(object, answer)) {
            return keep_failure(object);
        }
        ZVAL_COPY(result, &object->result);
        return true;
    case SHIM_TASK_FAILED:
        throw_payload(answer);
        return keep_failure(object);
    case SHIM_TASK_LOST:
        shim_task_exception_throw(why, 0, (shim_view){0}, (shim_view){0}, NULL);
        return keep_failure(object);
    default:
        shim_cancelled_throw();
        return keep_failure(object);
    }
}
