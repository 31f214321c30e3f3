/* Svc\async(): from a closure and its arguments to a task in the queue. */
#include "async/task/dispatch.h"
#include "async/task/owned_tasks.h"
#include "async/task/task_object.h"
#include "async/transfer/code.h"
#include "async/transfer/exceptions.h"
#include "async/transfer/packer.h"
#include "compat.h"
#include "php/context/context.h"
#include "php/context/current_span.h"
#include "php/context/host.h"
#include "php/context/own_worker.h"
#include "php/engine/sealed.h"

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

static shim_parcel *make_parcel(zend_object *closure, zval *arguments, uint32_t count)
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
        zend_throw_exception_ex(shim_rejected_exception, 0, "The queue of tasks is full (ASYNC_QUEUE_CAPACITY is " ZEND_ULONG_FMT ")",
                                (zend_ulong)bound);
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

bool shim_dispatch(zval *task, zend_object *closure, zval *arguments, uint32_t count)
{
    if (!may_dispatch()) {
        return false;
    }
    shim_parcel *parcel = make_parcel(closure, arguments, count);
    if (parcel == NULL) {
        return false;
    }
    /* Packing may have run script code, and taken time. */
    if (EG(exception) != NULL || !shim_owned_tasks_reserve(&shim_current->tasks)) {
        free(parcel);
        return EG(exception) != NULL ? false : reject("Out of memory");
    }
    shim_task *end = NULL;
    uint64_t id = 0, bound = 0;
    /* Created before the task exists: creating the object may run out of memory. */
    shim_sealed_make(task, shim_class_task);
    const shim_dispatched dispatched =
        shim_host.task.dispatch(shim_current->host, shim_current_span, parcel, shim_code_is_shared(closure), &end, &id, &bound);
    if (dispatched != SHIM_TASK_DISPATCHED) {
        zval_ptr_dtor(task);
        ZVAL_UNDEF(task);
        return refuse(dispatched, bound);
    }
    shim_owned_tasks_add(&shim_current->tasks, shim_host.task.share(end));
    shim_task_object_init(Z_OBJ_P(task), end, id);
    return true;
}
