/* Svc\async(), and the functions and methods of the async pool: their parameters and results. */
#include "async/task/task.h"
#include "async/transfer/transfer.h"
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "php/sapi/sapi.h"
#include "worker/stack/stack.h"

#include <zend_closures.h>

/* ---- Svc\async() ---- */

static bool reject(const char *why)
{
    zend_throw_exception(shim_rejected_exception, why, 0);
    return false;
}

static bool may_dispatch(void)
{
    if (shim_host.task.bytes_max() == 0) {
        return reject("There are no threads for tasks (ASYNC_WORKERS is 0)");
    }
    if (shim_current == NULL || shim_current->tasks.is_over) {
        zend_throw_exception(shim_async_exception, "A request that is ending cannot dispatch tasks", 0);
        return false;
    }
    if (shim_current->is_boot && shim_own_worker.is_for_tasks) {
        zend_throw_exception(shim_async_exception, "ASYNC_ENTRY_FILE cannot dispatch tasks", 0);
        return false;
    }
    return true;
}

static bool pack(shim_packer *packer, zend_object *closure, zval *arguments, uint32_t count)
{
    if (!shim_pack_code(packer, closure)) {
        return false;
    }
    shim_pack_number(packer, count);
    for (uint32_t i = 0; i < count; i++) {
        char place[32];
        snprintf(place, sizeof(place), "argument %u", i + 1);
        if (!shim_pack_value(packer, place, &arguments[i])) {
            return false;
        }
    }
    return true;
}

static shim_payload *make_payload(zend_object *closure, zval *arguments, uint32_t count)
{
    shim_packer packer;
    shim_packer_begin(&packer, (size_t)shim_host.task.bytes_max());
    if (!pack(&packer, closure, arguments, count)) {
        shim_packer_abandon(&packer);
        return NULL;
    }
    return shim_packer_finish(&packer);
}

static bool refuse(shim_dispatched dispatched, uint64_t bound)
{
    switch (dispatched) {
    case SHIM_TASK_QUEUE_FULL:
        zend_throw_exception_ex(shim_rejected_exception, 0,
                                "The queue of tasks is full (ASYNC_QUEUE_CAPACITY is " ZEND_ULONG_FMT ")", (zend_ulong)bound);
        return false;
    case SHIM_TASK_CAP_REACHED:
        zend_throw_exception_ex(shim_rejected_exception, 0,
                                "Too many tasks are in flight (ASYNC_MAX_FIBERS x ASYNC_WORKERS is " ZEND_ULONG_FMT ")",
                                (zend_ulong)bound);
        return false;
    case SHIM_TASK_NO_THREAD:
        return reject("No thread for tasks has booted; the log says why");
    case SHIM_TASK_CLOSED:
        return reject("The server is shutting down");
    default:
        return reject("There are no threads for tasks");
    }
}

/* Dispatches a task that calls `closure`, and creates its object. Returns false if an exception is thrown. */
static bool dispatch(zval *task, zend_object *closure, zval *arguments, uint32_t count)
{
    if (!may_dispatch()) {
        return false;
    }
    shim_payload *payload = make_payload(closure, arguments, count);
    if (payload == NULL) {
        return false;
    }
    /* Packing may have run script code, and taken time. */
    if (EG(exception) != NULL || !shim_owned_tasks_reserve(&shim_current->tasks)) {
        free(payload);
        return EG(exception) != NULL ? false : reject("Out of memory");
    }
    shim_task *end = NULL;
    uint64_t id = 0, bound = 0;
    /* Created before the task exists: creating the object may run out of memory. */
    shim_sealed_make(task, shim_class_task);
    const shim_dispatched dispatched = shim_host.task.dispatch(shim_current->host, shim_current_span, payload,
                                                               shim_code_is_shared(closure), &end, &id, &bound);
    if (dispatched != SHIM_TASK_DISPATCHED) {
        zval_ptr_dtor(task);
        ZVAL_UNDEF(task);
        return refuse(dispatched, bound);
    }
    shim_owned_tasks_add(&shim_current->tasks, shim_host.task.share(end));
    shim_task_object_init(Z_OBJ_P(task), end, id);
    return true;
}

/* ---- the functions and methods of the async pool ---- */

/* Svc\async(Closure $task, mixed ...$arguments): Svc\Task */
ZEND_NAMED_FUNCTION(shim_async)
{
    zend_object *closure;
    zval *arguments;
    uint32_t count;
    ZEND_PARSE_PARAMETERS_START(1, -1)
        Z_PARAM_OBJ_OF_CLASS(closure, zend_ce_closure)
        Z_PARAM_VARIADIC('*', arguments, count)
    ZEND_PARSE_PARAMETERS_END();
    if (!dispatch(return_value, closure, arguments, count)) {
        RETURN_THROWS();
    }
}

/* Parses the parameters of await_any() and await_race(), and waits. */
static void await_first(INTERNAL_FUNCTION_PARAMETERS, shim_watch_mode mode)
{
    zval *tasks, *key = NULL;
    double timeout = 0;
    bool is_endless = true;
    ZEND_PARSE_PARAMETERS_START(1, 3)
        Z_PARAM_ITERABLE(tasks)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(timeout, is_endless)
        Z_PARAM_ZVAL(key)
    ZEND_PARSE_PARAMETERS_END();
    int64_t deadline;
    if (!shim_deadline_of(&deadline, timeout, is_endless, 2)) {
        RETURN_THROWS();
    }
    shim_await_many(return_value, tasks, mode, deadline, key);
}

/* Svc\await_all(iterable $tasks, ?float $timeout = null): array */
ZEND_NAMED_FUNCTION(shim_await_all)
{
    zval *tasks;
    double timeout = 0;
    bool is_endless = true;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_ITERABLE(tasks)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(timeout, is_endless)
    ZEND_PARSE_PARAMETERS_END();
    int64_t deadline;
    if (!shim_deadline_of(&deadline, timeout, is_endless, 2)) {
        RETURN_THROWS();
    }
    shim_await_many(return_value, tasks, SHIM_WATCH_ALL, deadline, NULL);
}

/* Svc\await_any(iterable $tasks, ?float $timeout = null, int|string|null &$key = null): mixed */
ZEND_NAMED_FUNCTION(shim_await_any)
{
    await_first(INTERNAL_FUNCTION_PARAM_PASSTHRU, SHIM_WATCH_ANY);
}

/* Svc\await_race(iterable $tasks, ?float $timeout = null, int|string|null &$key = null): mixed */
ZEND_NAMED_FUNCTION(shim_await_race)
{
    await_first(INTERNAL_FUNCTION_PARAM_PASSTHRU, SHIM_WATCH_RACE);
}

ZEND_METHOD(Svc_Task, __construct)
{
    ZEND_PARSE_PARAMETERS_NONE();
}

static shim_task_object *own(zval *object)
{
    return shim_task_object_of(Z_OBJ_P(object));
}

ZEND_METHOD(Svc_Task, await)
{
    double timeout = 0;
    bool is_endless = true;
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(timeout, is_endless)
    ZEND_PARSE_PARAMETERS_END();
    int64_t deadline;
    if (!shim_deadline_of(&deadline, timeout, is_endless, 1)) {
        RETURN_THROWS();
    }
    shim_await_one(return_value, own(ZEND_THIS), deadline);
}

ZEND_METHOD(Svc_Task, isSettled)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(shim_task_state_read(own(ZEND_THIS)) != SHIM_TASK_OPEN);
}

ZEND_METHOD(Svc_Task, cancel)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(shim_host.task.cancel(own(ZEND_THIS)->task));
}

ZEND_METHOD(Svc_Task, detach)
{
    ZEND_PARSE_PARAMETERS_NONE();
    shim_task_object *task = own(ZEND_THIS);
    task->is_detached = true;
    shim_host.task.detach(task->task);
    RETURN_COPY(ZEND_THIS);
}

ZEND_METHOD(Svc_Task, isCancelled)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(shim_is_cancelled());
}

ZEND_BEGIN_ARG_WITH_RETURN_OBJ_INFO_EX(arginfo_async, 0, 1, Svc\\Task, 0)
    ZEND_ARG_OBJ_INFO(0, task, Closure, 0)
    ZEND_ARG_VARIADIC_TYPE_INFO(0, arguments, IS_MIXED, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_await_all, 0, 1, IS_ARRAY, 0)
    ZEND_ARG_OBJ_TYPE_MASK(0, tasks, Traversable, MAY_BE_ARRAY, NULL)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, timeout, IS_DOUBLE, 1, "null")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_await_first, 0, 1, IS_MIXED, 0)
    ZEND_ARG_OBJ_TYPE_MASK(0, tasks, Traversable, MAY_BE_ARRAY, NULL)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, timeout, IS_DOUBLE, 1, "null")
    ZEND_ARG_TYPE_MASK(1, key, MAY_BE_LONG | MAY_BE_STRING | MAY_BE_NULL, "null")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_await, 0, 0, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, timeout, IS_DOUBLE, 1, "null")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_bool, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_static, 0, 0, IS_STATIC, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_INFO_EX(arginfo_construct, 0, 0, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry methods[] = {
    ZEND_ME(Svc_Task, __construct, arginfo_construct, ZEND_ACC_PRIVATE)
    ZEND_ME(Svc_Task, await, arginfo_await, ZEND_ACC_PUBLIC)
    ZEND_ME(Svc_Task, isSettled, arginfo_bool, ZEND_ACC_PUBLIC)
    ZEND_ME(Svc_Task, cancel, arginfo_bool, ZEND_ACC_PUBLIC)
    ZEND_ME(Svc_Task, detach, arginfo_static, ZEND_ACC_PUBLIC)
    ZEND_ME(Svc_Task, isCancelled, arginfo_bool, ZEND_ACC_PUBLIC | ZEND_ACC_STATIC)
    ZEND_FE_END
};

static const zend_function_entry functions[] = {
    ZEND_NS_NAMED_FE("Svc", async, shim_async, arginfo_async)
    ZEND_NS_NAMED_FE("Svc", await_all, shim_await_all, arginfo_await_all)
    ZEND_NS_NAMED_FE("Svc", await_any, shim_await_any, arginfo_await_first)
    ZEND_NS_NAMED_FE("Svc", await_race, shim_await_race, arginfo_await_first)
    PHP_FE_END
};

/* ---- what tasks add to a request ---- */

static bool declare(zend_module_entry *module)
{
    (void)module;
    shim_async_exceptions_register();
    shim_task_class_register(methods);
    (void)zend_register_functions(NULL, functions, NULL, MODULE_PERSISTENT);
    shim_task_runner_install();
    return !shim_has_tasks || shim_function_ids_install();
}

/* ---- a forked child, which has no host ---- */

/* Parameters are unused below. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

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

static void lose_host(shim_callbacks *host)
{
    host->task.dispatch = refuse_dispatch;
    host->task.share = share_same;
    host->task.state = return_lost;
    host->task.winner = return_no_winner;
    host->task.settle = free_answer;
}

const shim_request_hooks shim_async_request_hooks = {
    .declare = declare,
    .end = shim_tasks_end,
    .ended = shim_sources_free,
    .cancel = shim_owned_tasks_cancel,
    .finish = shim_owned_tasks_end,
    .lose = shim_owned_tasks_lose,
    .fork = lose_host,
};
