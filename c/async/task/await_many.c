/* Awaiting one task, or several together.
 *
 * The iterable is read to its end before any task is awaited; one deadline covers the whole call. Only a timeout
 * cancels: tasks that are open when a call returns or throws continue until their request ends. */
#include "async/task/task.h"
#include "async/transfer/transfer.h"
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"

#include <ext/spl/spl_iterators.h>

/* The tasks of one call, by key. Both arrays are allocated from the request's memory: a bailout leaves them to the end
 * of the worker. */
typedef struct task_list {
    /* key => Svc\Task, in order. */
    zval objects;
    shim_task **ends;
    uint32_t count;
} task_list;

/* Adds or replaces an element; `name` is NULL for a number. */
static void put(HashTable *table, zend_string *name, zend_ulong index, zval *value)
{
    if (name != NULL) {
        zend_hash_update(table, name, value);
    } else {
        zend_hash_index_update(table, index, value);
    }
}

static void refuse_detached(void)
{
    zend_throw_exception(shim_async_exception, "A detached task cannot be awaited", 0);
}

/* ---- reading the iterable ---- */

static bool add(task_list *list, zval *task, zval *key, const char *function)
{
    ZVAL_DEREF(task);
    if (Z_TYPE_P(task) != IS_OBJECT || Z_OBJCE_P(task) != shim_class_task) {
        zend_type_error("Svc\\%s(): Argument #1 ($tasks) must contain only Svc\\Task, %s given", function,
                        zend_zval_value_name(task));
        return false;
    }
    if (shim_task_object_of(Z_OBJ_P(task))->is_detached) {
        refuse_detached();
        return false;
    }
    ZVAL_DEREF(key);
    if (Z_TYPE_P(key) != IS_LONG && Z_TYPE_P(key) != IS_STRING) {
        zend_type_error("Svc\\%s(): Argument #1 ($tasks) must have keys of type int|string, %s given", function,
                        zend_zval_value_name(key));
        return false;
    }
    Z_ADDREF_P(task);
    if (Z_TYPE_P(key) == IS_LONG) {
        zend_hash_index_update(Z_ARRVAL(list->objects), (zend_ulong)Z_LVAL_P(key), task);
    } else {
        zend_symtable_update(Z_ARRVAL(list->objects), Z_STR_P(key), task);
    }
    return true;
}

static bool add_array(task_list *list, HashTable *tasks, const char *function)
{
    zend_ulong index;
    zend_string *name;
    zval *task;
    ZEND_HASH_FOREACH_KEY_VAL(tasks, index, name, task) {
        zval key;
        if (name != NULL) {
            ZVAL_STR(&key, name);
        } else {
            ZVAL_LONG(&key, (zend_long)index);
        }
        if (!add(list, task, &key, function)) {
            return false;
        }
    } ZEND_HASH_FOREACH_END();
    return true;
}

typedef struct reading {
    task_list *list;
    const char *function;
    zend_ulong next;
} reading;

static int add_next(zend_object_iterator *iterator, void *argument)
{
    reading *own = argument;
    zval *task = iterator->funcs->get_current_data(iterator);
    if (task == NULL || EG(exception) != NULL) {
        return ZEND_HASH_APPLY_STOP;
    }
    zval key;
    ZVAL_LONG(&key, (zend_long)own->next++);
    if (iterator->funcs->get_current_key != NULL) {
        iterator->funcs->get_current_key(iterator, &key);
    }
    if (EG(exception) == NULL) {
        (void)add(own->list, task, &key, own->function);
    }
    zval_ptr_dtor(&key);
    return EG(exception) == NULL ? ZEND_HASH_APPLY_KEEP : ZEND_HASH_APPLY_STOP;
}

static bool read_tasks(task_list *list, zval *tasks, const char *function)
{
    array_init(&list->objects);
    if (Z_TYPE_P(tasks) == IS_ARRAY) {
        return add_array(list, Z_ARRVAL_P(tasks), function);
    }
    reading own = {.list = list, .function = function};
    spl_iterator_apply(tasks, add_next, &own);
    return EG(exception) == NULL;
}

static shim_task_object *object_of(zval *task)
{
    return shim_task_object_of(Z_OBJ_P(task));
}

static void list_ends(task_list *list)
{
    zval *task;
    list->ends = safe_emalloc(zend_hash_num_elements(Z_ARRVAL(list->objects)), sizeof(*list->ends), 0);
    ZEND_HASH_FOREACH_VAL(Z_ARRVAL(list->objects), task) {
        list->ends[list->count++] = object_of(task)->task;
    } ZEND_HASH_FOREACH_END();
}

static void free_list(task_list *list)
{
    if (list->ends != NULL) {
        efree(list->ends);
    }
    zval_ptr_dtor(&list->objects);
}

/* ---- timeouts ---- */

static void throw_timeout(void)
{
    zend_throw_exception(shim_timeout_exception, "The timeout has passed before the tasks were settled", 0);
}

/* Cancels open tasks, for all requests and tasks that await them, except detached ones. The losers of await_any() or
 * await_race() may delay the end of the request. */
static void give_up(shim_task *const *ends, uint32_t count, bool strands)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!shim_host.task.is_owned(ends[i])) {
            continue;
        }
        if (strands) {
            shim_host.task.strand(ends[i]);
        }
        (void)shim_host.task.cancel(ends[i]);
    }
    throw_timeout();
}

void shim_await_one(zval *result, shim_task_object *task, int64_t deadline)
{
    if (task->is_detached) {
        refuse_detached();
        return;
    }
    if (shim_task_state_read(task) == SHIM_TASK_OPEN) {
        size_t winner;
        /* The last reference to the object may be released during the wait. */
        GC_ADDREF(&task->std);
        const shim_awaited awaited = shim_await(&task->task, 1, SHIM_WATCH_RACE, deadline, &winner);
        if (awaited == SHIM_AWAIT_TIMED_OUT) {
            give_up(&task->task, 1, false);
        } else if (awaited == SHIM_AWAITED) {
            (void)shim_task_answer(task, result);
        }
        OBJ_RELEASE(&task->std);
        return;
    }
    (void)shim_task_answer(task, result);
}

/* ---- answers ---- */

static void answer_all(zval *result, task_list *list)
{
    zend_ulong index;
    zend_string *name;
    zval *task;
    array_init_size(result, list->count);
    ZEND_HASH_FOREACH_KEY_VAL(Z_ARRVAL(list->objects), index, name, task) {
        zval value;
        if (!shim_task_answer(object_of(task), &value)) {
            zval_ptr_dtor(result);
            ZVAL_NULL(result);
            return;
        }
        put(Z_ARRVAL_P(result), name, index, &value);
    } ZEND_HASH_FOREACH_END();
}

/* Returns the task with this index in the order of the list, and its key. */
static shim_task_object *nth(const task_list *list, size_t wanted, zval *key)
{
    zend_ulong index;
    zend_string *name;
    zval *task;
    ZEND_HASH_FOREACH_KEY_VAL(Z_ARRVAL(list->objects), index, name, task) {
        if (wanted-- == 0) {
            if (name != NULL) {
                ZVAL_STR_COPY(key, name);
            } else {
                ZVAL_LONG(key, (zend_long)index);
            }
            return object_of(task);
        }
    } ZEND_HASH_FOREACH_END();
    return NULL;
}

static void throw_aggregate(const task_list *list)
{
    zend_ulong index;
    zend_string *name;
    zval *task, errors;
    array_init(&errors);
    ZEND_HASH_FOREACH_KEY_VAL(Z_ARRVAL(list->objects), index, name, task) {
        zval nothing, error;
        if (shim_task_answer(object_of(task), &nothing)) {
            zval_ptr_dtor(&nothing);
            continue;
        }
        if (EG(exception) == NULL || shim_is_exit(EG(exception))) {
            zval_ptr_dtor(&errors);
            return;
        }
        ZVAL_OBJ_COPY(&error, EG(exception));
        zend_clear_exception();
        put(Z_ARRVAL(errors), name, index, &error);
    } ZEND_HASH_FOREACH_END();
    shim_aggregate_exception_throw(Z_ARR(errors));
}

static void answer_first(zval *result, task_list *list, size_t winner, zval *key)
{
    zval winning;
    shim_task_object *task = nth(list, winner, &winning);
    if (task == NULL) {
        throw_aggregate(list);
        return;
    }
    if (key != NULL) {
        ZEND_TRY_ASSIGN_REF_TMP(key, &winning);
    } else {
        zval_ptr_dtor(&winning);
    }
    if (EG(exception) == NULL) {
        (void)shim_task_answer(task, result);
    }
}

/* Throws the failure that ended await_all(), or returns false if there was none. */
static bool throw_failure(const task_list *list, size_t winner)
{
    zval key, nothing;
    shim_task_object *task = nth(list, winner, &key);
    if (task == NULL) {
        return false;
    }
    zval_ptr_dtor(&key);
    if (shim_task_answer(task, &nothing)) {
        zval_ptr_dtor(&nothing);
        return false;
    }
    return true;
}

void shim_await_many(zval *result, zval *tasks, shim_watch_mode mode, int64_t deadline, zval *key)
{
    static const char *const functions[] = {
        [SHIM_WATCH_ALL] = "await_all", [SHIM_WATCH_ANY] = "await_any", [SHIM_WATCH_RACE] = "await_race"};
    task_list list = {0};
    size_t winner = 0;
    if (!read_tasks(&list, tasks, functions[mode])) {
        free_list(&list);
        return;
    }
    list_ends(&list);
    if (list.count == 0 && mode != SHIM_WATCH_ALL) {
        zend_argument_value_error(1, "must contain at least one task");
    } else if (list.count == 0) {
        ZVAL_EMPTY_ARRAY(result);
    } else {
        switch (shim_await(list.ends, list.count, mode, deadline, &winner)) {
        case SHIM_AWAIT_TIMED_OUT:
            give_up(list.ends, list.count, mode != SHIM_WATCH_ALL);
            break;
        case SHIM_AWAIT_STOPPED:
            break;
        case SHIM_AWAITED:
            if (mode != SHIM_WATCH_ALL) {
                answer_first(result, &list, winner, key);
            } else if (!throw_failure(&list, winner)) {
                answer_all(result, &list);
            }
            break;
        }
    }
    free_list(&list);
}
