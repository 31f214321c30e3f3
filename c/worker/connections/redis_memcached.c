/* Stores: Redis and Memcached, whose only state between two commands is listed here.
 *
 * A request has a store for one call. It keeps the store after a call that leaves something open, until that is ended: a
 * block of commands, a watch, a subscription, requested values of Memcached that were not fetched.
 *
 * The database that a request selects applies to its calls only: a call uses the database that its request has selected, or
 * else the one from before any request selected another. The same holds for options while the request runs (options.c). A
 * request that has connected the store selects for all requests, as applications do that connect on first use. */
#include "compat.h"
#include "php/engine/engine.h"
#include "worker/connections/connections.h"

#include <stdlib.h>

typedef struct selection {
    const shim_fiber *fiber;
    zend_long database;
} selection;

typedef struct shim_selections {
    /* The serial number of the request that has connected it. */
    uint64_t connected_by;
    zend_long home;
    /* The database that the server uses now. */
    zend_long current;
    unsigned count;
    unsigned room;
    selection list[];
} shim_selections;

/* Calls a method of Redis. Returns -1 if the result is neither a number nor true, and 0
 * for true. */
static zend_long number(zend_object *object, const char *name, zval *argument)
{
    zval result;
    (void)shim_builtin_call("redis", name, object, &result, argument, argument != NULL);
    const zend_long value = Z_TYPE(result) == IS_LONG ? Z_LVAL(result) : Z_TYPE(result) == IS_TRUE ? 0 : -1;
    zval_ptr_dtor(&result);
    return value;
}

/* Returns NULL if out of memory. */
static shim_selections *selections_of(shim_connection *store)
{
    if (store->selections == NULL) {
        store->selections = calloc(1, sizeof(*store->selections));
    }
    return store->selections;
}

static zend_long wanted_by(const shim_selections *all, const shim_fiber *fiber)
{
    unsigned i = 0;
    while (i < all->count && all->list[i].fiber != fiber) {
        i++;
    }
    return i < all->count ? all->list[i].database : all->home;
}

static void forget(shim_selections *all, const shim_fiber *fiber)
{
    for (unsigned i = 0; i < all->count; i++) {
        if (all->list[i].fiber == fiber) {
            all->list[i] = all->list[--all->count];
            return;
        }
    }
}

/* Returns the database of a new connection: the option `database` of the constructor, whose case does not matter.
 * Redis::getDBNum() would connect. */
static zend_long first_database(zend_execute_data *execute_data)
{
    const zval *options = shim_is_called(execute_data, "__construct") ? shim_argument(execute_data, 1) : NULL;
    zend_string *name;
    zval *value;
    if (options != NULL && Z_TYPE_P(options) == IS_ARRAY) {
        ZEND_HASH_FOREACH_STR_KEY_VAL(Z_ARRVAL_P(options), name, value) {
            if (name != NULL && zend_string_equals_literal_ci(name, "database")) {
                return MAX(zval_get_long(value), 0);
            }
        } ZEND_HASH_FOREACH_END();
    }
    return 0;
}

static bool is_select(const zend_execute_data *execute_data)
{
    return shim_is_called(execute_data, "select");
}

/* Selects the database; shim_store_leave() notes it. If that fails, phpredis selects the previous one again as soon as it
 * reconnects. */
static void settle(shim_connection *store, zend_long database)
{
    zval argument;
    ZVAL_LONG(&argument, database);
    if (number(store->object, "select", &argument) != 0 && EG(exception) == NULL) {
        shim_busy_error_throw("The database that this request uses cannot be selected again");
    }
}

/* Whether the call sends a command, and opens or closes no connection. */
static bool needs_database(const zend_execute_data *execute_data)
{
    static const char *const others[] = {
        "__construct", "__destruct", "close",       "connect", "getdbnum", "getmode",
        "getoption",   "setoption",  "isconnected", "open",    "pconnect", "popen",
    };
    return !SHIM_IS_LISTED(ZSTR_VAL(EX(func)->common.function_name), others);
}

void shim_store_enter(shim_connection *store, zend_execute_data *execute_data)
{
    shim_options_enter(store, execute_data);
    if (store->kind != SHIM_KIND_REDIS || shim_connection_is_in_own_call(store)) {
        return;
    }
    if (is_select(execute_data) && store->selections == NULL && selections_of(store) != NULL) {
        const zend_long database = number(store->object, "getdbnum", NULL);
        store->selections->home = store->selections->current = database > 0 ? database : 0;
    }
    const shim_selections *all = store->selections;
    if (all == NULL || is_select(execute_data) || store->is_in_block || store->is_subscribed) {
        return;
    }
    const zend_long wanted = wanted_by(all, shim_running);
    if (wanted != all->current && needs_database(execute_data)) {
        settle(store, wanted);
    }
}

/* Returns false if out of memory. */
static bool make_room(shim_connection *store)
{
    shim_selections *all = store->selections;
    if (all->count < all->room) {
        return true;
    }
    const unsigned room = all->room > 0 ? 2 * all->room : 4;
    all = realloc(all, sizeof(*all) + room * sizeof(all->list[0]));
    if (all == NULL) {
        return false;
    }
    all->room = room;
    store->selections = all;
    return true;
}

static void note_selection(shim_connection *store, zend_long database)
{
    shim_fiber *fiber = shim_running;
    store->selections->current = database;
    forget(store->selections, fiber);
    if (store->selections->connected_by == fiber->context.serial) {
        store->selections->home = database;
    } else if (database != store->selections->home) {
        if (make_room(store)) {
            shim_selections *all = store->selections;
            all->list[all->count++] = (selection){.fiber = fiber, .database = database};
            fiber->has_selected = true;
        } else {
            /* The request keeps the store until its end, which closes it. */
            store->is_subscribed = true;
        }
    }
}

static void note_connection(shim_connection *store, zend_execute_data *execute_data)
{
    shim_selections *all = selections_of(store);
    if (all != NULL) {
        /* The selections of other requests apply to the new connection, too. */
        all->connected_by = shim_running->context.serial;
        all->home = all->current = first_database(execute_data);
        forget(all, shim_running);
    }
}

static void leave_redis(shim_connection *store, zend_execute_data *execute_data, const zval *result)
{
    if (shim_is_called(execute_data, "multi") || shim_is_called(execute_data, "pipeline")) {
        store->is_in_block = Z_TYPE_P(result) == IS_OBJECT;
    } else if (shim_is_called(execute_data, "exec") || shim_is_called(execute_data, "discard") ||
               shim_is_called(execute_data, "close") || shim_is_called(execute_data, "reset")) {
        store->is_in_block = store->kind == SHIM_KIND_REDIS && number(store->object, "getmode", NULL) > 0;
    }
    if (store->kind != SHIM_KIND_REDIS) {
        return;
    }
    if (shim_is_called(execute_data, "connect") || shim_is_called(execute_data, "open") ||
        shim_is_called(execute_data, "pconnect") || shim_is_called(execute_data, "popen") ||
        shim_is_called(execute_data, "__construct")) {
        note_connection(store, execute_data);
    } else if (is_select(execute_data) && store->selections != NULL && !store->is_in_block) {
        const zval *database = ZEND_CALL_NUM_ARGS(execute_data) > 0 ? ZEND_CALL_ARG(execute_data, 1) : NULL;
        if (Z_TYPE_P(result) == IS_TRUE && database != NULL) {
            note_selection(store, zval_get_long((zval *)database));
        }
    }
}

/* Memcached: notes requested values, which fetch() returns one by one and fetchAll() all at once. */
static void leave_memcached(shim_connection *store, zend_execute_data *execute_data, const zval *result)
{
    if (shim_is_called(execute_data, "getdelayed") || shim_is_called(execute_data, "getdelayedbykey")) {
        store->is_subscribed = Z_TYPE_P(result) == IS_TRUE && ZEND_CALL_NUM_ARGS(execute_data) < 3;
    } else if (shim_is_called(execute_data, "fetchall") || shim_is_called(execute_data, "quit") ||
               (shim_is_called(execute_data, "fetch") && Z_TYPE_P(result) == IS_FALSE)) {
        store->is_subscribed = false;
    }
}

void shim_store_leave(shim_connection *store, zend_execute_data *execute_data, const zval *result)
{
    if (store->object == NULL || EG(exception) != NULL) {
        return;
    }
    shim_options_leave(store, execute_data, result,
                       store->selections != NULL && store->selections->connected_by == shim_running->context.serial);
    if (store->kind == SHIM_KIND_MEMCACHED) {
        leave_memcached(store, execute_data, result);
    } else {
        leave_redis(store, execute_data, result);
    }
}

static bool has_selection_of(const shim_connection *one, const void *fiber)
{
    unsigned i = 0;
    while (one->selections != NULL && i < one->selections->count && one->selections->list[i].fiber != fiber) {
        i++;
    }
    return one->selections != NULL && i < one->selections->count;
}

void shim_stores_end(const shim_fiber *fiber)
{
    if (!fiber->has_selected) {
        return;
    }
    for (shim_connection *one = NULL; (one = shim_connection_find_if(has_selection_of, fiber)) != NULL;) {
        forget(one->selections, fiber);
    }
    shim_options_end(fiber);
}
