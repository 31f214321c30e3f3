/* Options of stores that requests change.
 *
 * Other requests use the store between two calls. Libraries change an option for a few commands (Laravel's rate limiter
 * disables the serializer), and other requests would meanwhile write in the wrong format. Only one request at a time uses a
 * store, and setting an option sends nothing to the server: the options of the running request are therefore applied at the
 * beginning of its call. */
#include "compat.h"
#include "php/engine/engine.h"
#include "worker/connections/connections.h"
#include "worker/stack/stack.h"

#include <stdlib.h>

typedef struct change {
    /* The request is 0 once it has ended: the next call makes the change permanent. */
    shim_kept kept;
    zend_long option;
    zval own;
    zval of_others;
    bool is_applied;
} change;

static change *first_of(const shim_connection *store)
{
    return (change *)store->options;
}

static change *after(const change *one)
{
    return (change *)one->kept.next;
}

static bool has_options(const shim_connection *store)
{
    return store->kind == SHIM_KIND_REDIS || store->kind == SHIM_KIND_REDIS_CLUSTER || store->kind == SHIM_KIND_MEMCACHED;
}

static void call(shim_connection *store, const char *name, zval *result, zval *arguments, uint32_t count)
{
    ZVAL_UNDEF(result);
    if (store->object != NULL) {
        store->is_in_own_call = true;
        (void)shim_builtin_call(shim_kind_class(store->kind), name, store->object, result, arguments, count);
        store->is_in_own_call = false;
    }
}

static void get(shim_connection *store, zend_long option, zval *value)
{
    zval argument;
    ZVAL_LONG(&argument, option);
    call(store, "getoption", value, &argument, 1);
}

static void set(shim_connection *store, zend_long option, const zval *value)
{
    zval arguments[2], result;
    ZVAL_LONG(&arguments[0], option);
    ZVAL_COPY_VALUE(&arguments[1], value);
    call(store, "setoption", &result, arguments, 2);
    zval_ptr_dtor(&result);
}

/* Returns false if the call has no valid option. */
static bool option_of(zend_execute_data *execute_data, zend_long *option)
{
    const zval *argument = shim_argument(execute_data, 1);
    if (argument == NULL || Z_TYPE_P(argument) != IS_LONG) {
        return false;
    }
    *option = Z_LVAL_P(argument);
    return true;
}

static void drop(shim_connection *store, change *one)
{
    shim_kept **link = &store->options;
    while (*link != &one->kept) {
        link = &(*link)->next;
    }
    *link = one->kept.next;
    zval_ptr_dtor(&one->own);
    zval_ptr_dtor(&one->of_others);
    free(one);
}

void shim_options_forget(shim_connection *store)
{
    while (store->options != NULL) {
        drop(store, first_of(store));
    }
    zval_ptr_dtor(&store->option_before);
    ZVAL_UNDEF(&store->option_before);
}

/* Whether the change applies to the running request; 0 marks changes of requests that have ended. */
static bool is_wanted(const change *one)
{
    return one->kept.request == 0 || one->kept.request == shim_running->context.serial;
}

/* Has the running request apply its own change again, if it has one. */
static void note_overwritten(const shim_connection *store, zend_long option)
{
    for (change *one = first_of(store); one != NULL; one = after(one)) {
        one->is_applied = one->is_applied && one->option != option;
    }
}

/* Reverts changes of other requests, then applies those of requests that have ended, then those of the running one: they may
 * change the same option. */
static void apply_changes(shim_connection *store)
{
    for (change *one = first_of(store); one != NULL; one = after(one)) {
        if (one->is_applied && !is_wanted(one)) {
            one->is_applied = false;
            set(store, one->option, &one->of_others);
        }
    }
    change *next = NULL;
    for (change *one = first_of(store); one != NULL; one = next) {
        next = after(one);
        if (one->kept.request == 0) {
            if (!one->is_applied) {
                note_overwritten(store, one->option);
                set(store, one->option, &one->own);
            }
            drop(store, one);
        }
    }
    for (change *one = first_of(store); one != NULL; one = after(one)) {
        if (!one->is_applied && is_wanted(one)) {
            one->is_applied = true;
            set(store, one->option, &one->own);
        }
    }
}

void shim_options_enter(shim_connection *store, zend_execute_data *execute_data)
{
    if (!has_options(store) || shim_connection_is_in_own_call(store)) {
        return;
    }
    if (store->options != NULL) {
        apply_changes(store);
    }
    zend_long option;
    if (shim_is_called(execute_data, "setoption") && option_of(execute_data, &option)) {
        zval_ptr_dtor(&store->option_before);
        get(store, option, &store->option_before);
    }
}

static change *find(const shim_connection *store, zend_long option)
{
    change *one = first_of(store);
    while (one != NULL && (one->kept.request != shim_running->context.serial || one->option != option)) {
        one = after(one);
    }
    return one;
}

/* Takes ownership of both values. */
static void add(shim_connection *store, zend_long option, zval *before, zval *now)
{
    change *one = zend_is_identical(before, now) ? NULL : calloc(1, sizeof(*one));
    if (one == NULL) {
        /* If out of memory, the change applies to all requests. */
        zval_ptr_dtor(before);
        zval_ptr_dtor(now);
        return;
    }
    one->kept = (shim_kept){.request = shim_running->context.serial, .next = store->options};
    one->option = option;
    ZVAL_COPY_VALUE(&one->own, now);
    ZVAL_COPY_VALUE(&one->of_others, before);
    one->is_applied = true;
    store->options = &one->kept;
    shim_running->has_selected = true;
}

static void note(shim_connection *store, zend_long option, zval *before, zval *now)
{
    change *one = find(store, option);
    if (one == NULL) {
        add(store, option, before, now);
        return;
    }
    zval_ptr_dtor(before);
    zval_ptr_dtor(&one->own);
    ZVAL_COPY_VALUE(&one->own, now);
    if (zend_is_identical(&one->own, &one->of_others)) {
        drop(store, one);
    }
}

void shim_options_leave(shim_connection *store, zend_execute_data *execute_data, const zval *result, bool is_for_all)
{
    zend_long option;
    if (!has_options(store) || store->is_in_own_call || Z_ISUNDEF(store->option_before)) {
        return;
    }
    zval before, now;
    ZVAL_COPY_VALUE(&before, &store->option_before);
    ZVAL_UNDEF(&store->option_before);
    if (is_for_all || Z_TYPE_P(result) != IS_TRUE || !shim_is_called(execute_data, "setoption") ||
        !option_of(execute_data, &option)) {
        zval_ptr_dtor(&before);
        return;
    }
    get(store, option, &now);
    if (Z_ISUNDEF(now)) {
        zval_ptr_dtor(&before);
    } else {
        note(store, option, &before, &now);
    }
}

static bool has_change_of(const shim_connection *store, const void *fiber)
{
    const change *one = first_of(store);
    while (one != NULL && one->kept.request != ((const shim_fiber *)fiber)->context.serial) {
        one = after(one);
    }
    return one != NULL;
}

/* Makes the value the default of all other requests, instead of one that a request has left before. */
static void make_default(shim_connection *store, change *given)
{
    change *next = NULL;
    for (change *one = first_of(store); one != NULL; one = next) {
        next = after(one);
        if (one == given || one->option != given->option) {
            continue;
        }
        if (one->kept.request == 0) {
            drop(store, one);
        } else {
            zval_ptr_dtor(&one->of_others);
            ZVAL_COPY(&one->of_others, &given->own);
        }
    }
    given->kept.request = 0;
}

void shim_options_end(const shim_fiber *fiber)
{
    for (shim_connection *store = NULL; (store = shim_connection_find_if(has_change_of, fiber)) != NULL;) {
        for (change *one = first_of(store); one != NULL; one = after(one)) {
            if (one->kept.request == fiber->context.serial) {
                make_default(store, one);
            }
        }
    }
}
