/* Functions that open connections.
 *
 * The object of a new connection belongs to the request that creates it. A persistent connection is different: the object
 * is new, but other requests have used the connection behind it. So it belongs to the shared owner, and the request has to
 * become that before PHP checks whether the connection is alive. */
#include "compat.h"
#include "php/engine/engine.h"
#include "worker/connections/connections.h"
#include "worker/hooks/hooks.h"

/* Redis's constructor takes an array of options. */
static bool asks_redis_to_persist(zend_execute_data *execute_data)
{
    const zval *options = shim_argument(execute_data, 1);
    const zval *option = options != NULL && Z_TYPE_P(options) == IS_ARRAY
                             ? zend_hash_str_find_deref(Z_ARRVAL_P(options), ZEND_STRL("persistent"))
                             : NULL;
    return option != NULL && (Z_TYPE_P(option) == IS_STRING || Z_TYPE_P(option) == IS_TRUE);
}

/* For mysqli's host names, and Memcached's persistent ID. */
static bool begins_with(zend_execute_data *execute_data, const char *prefix)
{
    for (uint32_t i = 1; i <= ZEND_CALL_NUM_ARGS(execute_data); i++) {
        const zval *value = shim_argument(execute_data, i);
        if (value != NULL && Z_TYPE_P(value) == IS_STRING) {
            return strncmp(Z_STRVAL_P(value), prefix, strlen(prefix)) == 0;
        }
    }
    return false;
}

static bool is_persistent(zend_execute_data *execute_data, const zend_object *object)
{
    if (shim_is_called(execute_data, "pconnect") || shim_is_called(execute_data, "popen") ||
        shim_is_called(execute_data, "pg_pconnect")) {
        return true;
    }
    const shim_connection *connection = object != NULL ? shim_connection_find(object) : NULL;
    const zend_class_entry *scope = EX(func)->common.scope;
    if (connection == NULL) {
        return (scope != NULL && shim_pdo_asks_to_persist(execute_data)) || begins_with(execute_data, "p:");
    }
    switch (connection->kind) {
    case SHIM_KIND_PDO:
        return shim_pdo_asks_to_persist(execute_data);
    case SHIM_KIND_MYSQLI:
        return begins_with(execute_data, "p:");
    case SHIM_KIND_REDIS:
        return asks_redis_to_persist(execute_data);
    case SHIM_KIND_MEMCACHED:
        return ZEND_CALL_NUM_ARGS(execute_data) > 0 && begins_with(execute_data, "");
    default:
        /* RedisCluster, RedisArray and RedisSentinel have many ways to request persistence; assume it. */
        return connection->kind == SHIM_KIND_REDIS_CLUSTER || connection->kind == SHIM_KIND_REDIS_ARRAY ||
               connection->kind == SHIM_KIND_REDIS_SENTINEL;
    }
}

/* Returns the handle by which several objects may have the same persistent connection; NULL if it has one object at a
 * time (mysqli and phpredis take it out of a pool), or if it is not persistent, whatever the arguments were. */
static const void *handle_of(const shim_connection *connection, bool persists)
{
    if (connection->kind == SHIM_KIND_MEMCACHED) {
        return persists ? shim_library_handle(connection->object) : NULL;
    }
    return connection->kind == SHIM_KIND_PDO ? shim_pdo_persistent_handle(connection->object) : NULL;
}

/* Without its pool, phpredis gives one socket to several objects, each with its own record of the selected database.
 * pg_close() closes an object of pg_pconnect(), and not its connection, which may be in a transaction then. */
static bool may_share_socket(const shim_connection *connection)
{
    return connection->kind == SHIM_KIND_PGSQL ||
           (connection->kind >= SHIM_KIND_REDIS && connection->kind <= SHIM_KIND_REDIS_SENTINEL &&
            !INI_BOOL("redis.pconnect.pooling_enabled"));
}

static zend_object *opened_by(zend_execute_data *execute_data, const zval *result)
{
    if (Z_TYPE(EX(This)) == IS_OBJECT) {
        return Z_OBJ(EX(This));
    }
    zend_object *first = shim_argument_object(execute_data, 1);
    if (first != NULL) {
        return first;
    }
    return Z_TYPE_P(result) == IS_OBJECT ? Z_OBJ_P(result) : NULL;
}

/* Returns the connection that the call has opened, or that the new object has, if it is persistent. */
static shim_connection *note_persistent(zend_execute_data *execute_data, const zval *result, bool persists)
{
    zend_object *object = opened_by(execute_data, result);
    shim_connection *connection = object != NULL && shim_object_is_tracked(object, true) ? shim_connection_find(object) : NULL;
    const void *handle = connection != NULL ? handle_of(connection, persists) : NULL;
    if (connection == NULL || !shim_kind_is_connection(connection->kind) || !(persists || handle != NULL)) {
        return NULL;
    }
    if (!shim_kind_is_store(connection->kind)) {
        shim_owned_release(&connection->owned);
    }
    connection->may_share_socket = may_share_socket(connection);
    connection->is_persistent = shim_kind_is_store(connection->kind);
    return handle != NULL ? shim_connection_join(connection, handle) : connection;
}

static bool is_of_another(const shim_connection *one, const void *fiber)
{
    return one->handle != NULL && !shim_kind_is_store(one->kind) && one->owned.owner != NULL && one->owned.owner != fiber;
}

/* Acquires the persistent connections of the thread, any of which the caller is about to use. Some may be lent, and while the
 * request waits for one, it may lend the others. */
static bool take_persistent(void)
{
    while (shim_connection_take_shared()) {
        shim_connection *one = shim_connection_find_if(is_of_another, shim_running);
        if (one == NULL) {
            return true;
        }
        if (!shim_connection_take(one)) {
            return false;
        }
    }
    return false;
}

static ZEND_NAMED_FUNCTION(call_that_connects)
{
    zval nothing;
    ZVAL_UNDEF(&nothing);
    const bool is_kept_by_pgsql = shim_is_called(execute_data, "pg_pconnect");
    zend_object *object = opened_by(execute_data, &nothing);
    const bool persists =
        is_persistent(execute_data, object != NULL && shim_object_is_tracked(object, false) ? object : NULL);
    if (!shim_hook_is_on(SHIM_HOOK_NET)) {
        if (is_kept_by_pgsql) {
            shim_user_note_persistent();
        }
        shim_call_on_connection(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        shim_connection *connection = note_persistent(execute_data, return_value, persists);
        if (connection != NULL) {
            shim_user_note(connection);
        }
        return;
    }
    shim_connection *store = persists && object != NULL ? shim_connection_find(object) : NULL;
    store = store != NULL && shim_kind_is_store(store->kind) ? store : NULL;
    const bool opens_session = persists && store == NULL;
    if ((store != NULL && !shim_connection_take_stores(store)) || (opens_session && !take_persistent())) {
        return;
    }
    if (is_kept_by_pgsql) {
        shim_user_note_persistent();
    }
    const bool was_unknown = shim_owner_shared_is_unknown();
    shim_fiber *fiber = opens_session ? shim_running : NULL;
    if (fiber != NULL) {
        fiber->lends_nothing = true;
    }
    shim_call_on_connection(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    if (fiber != NULL) {
        fiber->lends_nothing = false;
        /* The sockets that PHP has used are those of known connections. */
        shim_owner_shared_set_unknown(was_unknown);
    }
    shim_connection *connection = note_persistent(execute_data, return_value, persists);
    if (connection != NULL && shim_connection_try_take(connection)) {
        connection->user = shim_running;
    }
}

zif_handler shim_connecting_wrapper(const char *name)
{
    static const char *const names[] = {
        "__construct", "connect",         "mysqli_connect", "mysqli_real_connect", "open",         "pconnect",
        "pg_connect",  "pg_pconnect",     "popen",          "real_connect",
    };
    for (size_t i = 0; i < SHIM_COUNT(names); i++) {
        if (strcmp(names[i], name) == 0) {
            return call_that_connects;
        }
    }
    return NULL;
}
