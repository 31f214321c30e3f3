/* Whether a connection is at rest, what state a request has left in its session, and the records of its calls.
 *
 * The structs of the extensions and of their libraries show whether something is under way; the server is not asked.
 * Anything invisible counts as under way: a connection of an unknown driver is at rest while it has no executed statement.
 *
 * The state of a session is invisible: the keywords of its statements show whether they may change what later statements
 * find (statements.c). A connection with such state is lent only if the wait of its owner may depend on the borrower
 * (worker/connections/owners/wait_queue.c). The figures of the owner's last statement are saved when a connection is lent
 * (statement_status.c, last_ids.c). */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "worker/connections/connections.h"
#include "worker/connections/owners/owners.h"
#include "worker/hooks/hooks.h"
#include "worker/stack/stack.h"

/* ---- libraries ---- */

static bool is_pg_at_rest(const void *connection)
{
    if (connection == NULL) {
        return true;
    }
    const int status = shim_libpq_status(connection);
    return status == SHIM_PG_IDLE || status == SHIM_PG_LOST;
}

/* ---- kinds ---- */

/* Whether no exchange or result is under way, apart from a transaction. */
static bool is_pdo_idle(const shim_connection *connection)
{
    void *library = shim_pdo_library_connection(connection->object);
    const char *driver = shim_pdo_driver(connection->object);
    if (library == NULL || driver == NULL) {
        return true;
    }
    return strcmp(driver, "mysql") == 0    ? shim_mysqlnd_is_idle(library)
           : strcmp(driver, "sqlite") == 0 ? !shim_sqlite_is_busy(shim_pdo_sqlite(connection->object))
           : strcmp(driver, "pgsql") == 0
               ? shim_libpq_status(library) != SHIM_PG_ACTIVE
               : shim_connection_find_if(shim_pdo_is_executed_statement, connection) == NULL;
}

static bool is_pdo_at_rest(const shim_connection *connection)
{
    const char *driver = shim_pdo_driver(connection->object);
    if (driver != NULL && strcmp(driver, "pgsql") == 0) {
        return is_pg_at_rest(shim_pdo_library_connection(connection->object));
    }
    return !shim_pdo_in_transaction(connection->object) && is_pdo_idle(connection);
}

bool shim_connection_is_at_rest(shim_connection *connection)
{
    if (connection->owned.uses > 0 || connection->held > 0) {
        return false;
    }
    if (connection->object == NULL) {
        return !connection->is_left_open;
    }
    switch (connection->kind) {
    case SHIM_KIND_PDO:
        return is_pdo_at_rest(connection);
    case SHIM_KIND_MYSQLI:
        return shim_mysqli_is_idle(connection->object) &&
               (!shim_mysqli_is_open(connection->object) || !shim_mysqli_in_transaction(connection->object));
    case SHIM_KIND_PGSQL:
        return is_pg_at_rest(shim_library_handle(connection->object));
    case SHIM_KIND_SQLITE: {
        void *const database = shim_sqlite_of(connection->object);
        return !shim_sqlite_in_transaction(database) && !shim_sqlite_is_busy(database);
    }
    case SHIM_KIND_REDIS:
    case SHIM_KIND_REDIS_ARRAY:
    case SHIM_KIND_REDIS_CLUSTER:
    case SHIM_KIND_REDIS_SENTINEL:
    case SHIM_KIND_MEMCACHED:
        return !connection->is_watching && !connection->is_subscribed && !connection->is_in_block;
    default:
        return false;
    }
}

static bool has_session(const shim_connection *root)
{
    return root->kind == SHIM_KIND_PDO || root->kind == SHIM_KIND_MYSQLI || root->kind == SHIM_KIND_PGSQL ||
           root->kind == SHIM_KIND_SQLITE;
}

/* ---- resources, which may represent several connections ---- */

typedef struct part {
    const shim_owned *resource;
    const shim_fiber *owner;
} part;

/* Whether the connection, as far as the owner uses it, belongs to the resource. */
static bool is_part(const shim_connection *one, const part *of)
{
    if (!shim_kind_is_connection(one->kind)) {
        return false;
    }
    const shim_owned *resource = shim_connection_owned((shim_connection *)one);
    const bool is_shared = resource->owner == NULL && !resource->is_leased && !resource->is_exclusive;
    return resource == of->resource || (of->resource == shim_owner_shared() && one->user == of->owner && is_shared);
}

static bool is_restless(const shim_connection *one, const void *of)
{
    if (!is_part(one, of)) {
        return false;
    }
    /* Only a single connection can be lent: others on the same socket would write into its exchange. */
    const bool may_be_one_of_several =
        one->may_share_socket || (!shim_kind_is_store(one->kind) && shim_socket_is_shared(&one->owned));
    return may_be_one_of_several || !shim_connection_is_at_rest((shim_connection *)one);
}

static bool is_stateful(const shim_connection *one, const void *of)
{
    const part *part = of;
    return one->session_state_request == part->owner->context.serial && is_part(one, part);
}

static bool is_left_by(const shim_connection *one, const void *of)
{
    const part *part = of;
    return one->user == part->owner && is_part(one, part);
}

bool shim_rest_is_in_persistent_transaction(const shim_fiber *fiber)
{
    return shim_user_has_used_persistent(fiber) && shim_libpq_persistent_is_in_transaction();
}

static bool is_at_rest(const shim_owned *resource, const shim_fiber *owner)
{
    const part of = {.resource = resource, .owner = owner};
    return !owner->lends_nothing && !resource->is_unknown &&
           !(resource == shim_owner_shared() &&
             (shim_owner_shared_is_unknown() || shim_rest_is_in_persistent_transaction(owner))) &&
           shim_connection_find_if(is_restless, &of) == NULL;
}

static bool keeps_state(const shim_owned *resource, const shim_fiber *owner)
{
    const part of = {.resource = resource, .owner = owner};
    return shim_connection_find_if(is_stateful, &of) != NULL;
}

static void is_left(const shim_owned *resource, const shim_fiber *owner)
{
    const part of = {.resource = resource, .owner = owner};
    for (shim_connection *one = NULL; (one = shim_connection_find_if(is_left_by, &of)) != NULL;) {
        one->user = NULL;
        if (has_session(one)) {
            shim_figures_save(one, owner);
        }
    }
}

/* ---- calls ---- */

/* Locks of the boot script are kept: they may guard the worker as a whole. */
static void note_locks(shim_connection *root, unsigned effects)
{
    if ((effects & SHIM_LEAVES_LOCK) == 0 || root->keeps_locks || root->kind == SHIM_KIND_SQLITE) {
        return;
    }
    const uint64_t request = shim_running != NULL ? shim_running->context.serial : SHIM_SEVERAL;
    root->keeps_locks = root->locked_by == 0 && !shim_own_worker.serving && shim_own_worker.requests == 0;
    if (!root->keeps_locks) {
        root->locked_by = root->locked_by == 0 || root->locked_by == request ? request : SHIM_SEVERAL;
    }
}

void shim_rest_note_locks(shim_connection *root, shim_connection *subject, zend_execute_data *execute_data)
{
    if (has_session(root)) {
        note_locks(root, shim_statement_effects(root, subject, execute_data, true));
    }
}

bool shim_rest_note(shim_connection *root, shim_connection *subject, zend_execute_data *execute_data)
{
    shim_fiber *fiber = shim_running;
    if (shim_kind_is_store(root->kind) && fiber != NULL) {
        fiber->has_used_store = fiber->is_at_store = true;
    }
    if (!has_session(root) || shim_connection_is_in_own_call(root)) {
        return true;
    }
    const unsigned effects = shim_statement_effects(root, subject, execute_data, false);
    const bool was_unlocked = root->locked_by == 0;
    note_locks(root, effects);
    if (fiber == NULL) {
        return true;
    }
    fiber->is_at_store = false;
    if (!shim_last_id_is_available(root, effects)) {
        shim_busy_error_throw("The last ID of this connection belongs to another request, which has used it while this one "
                              "waited; read the ID before you wait, or use INSERT … RETURNING");
        return false;
    }
    if ((effects & SHIM_LEAVES_STATE) != 0) {
        const bool is_only_try = (effects & SHIM_TRIES_LOCK) != 0 && root->session_state_request != fiber->context.serial;
        root->lock_attempt_request = is_only_try ? fiber->context.serial : 0;
        root->was_unlocked = was_unlocked;
        root->session_state_request = fiber->context.serial;
        subject->has_unread_try = (effects & SHIM_TRIES_LOCK) != 0;
    }
    root->last_id_request = (effects & SHIM_LEAVES_ID) != 0 ? fiber->context.serial : root->last_id_request;
    return true;
}

/* ---- rows ---- */

static void note_fetched(const zend_execute_data *execute_data, const zval *result)
{
    shim_connection *statement =
        Z_TYPE(EX(This)) == IS_OBJECT ? shim_connection_find(Z_OBJ(EX(This))) : NULL;
    if (statement == NULL || statement->kind != SHIM_KIND_PDO_STATEMENT) {
        return;
    }
    if (shim_is_called(execute_data, "fetch") || shim_is_called(execute_data, "fetchobject")) {
        statement->fetched = Z_TYPE_P(result) == IS_FALSE ? 0 : statement->fetched + 1;
    } else if (shim_is_called(execute_data, "fetchcolumn")) {
        statement->fetched++;
    } else if (shim_is_called(execute_data, "execute") || shim_is_called(execute_data, "fetchall") ||
               shim_is_called(execute_data, "closecursor") || shim_is_called(execute_data, "nextrowset")) {
        statement->fetched = 0;
    }
    statement->fetched_by = shim_running_serial();
}

/* Whether the result of an attempt means that the lock was not acquired: false, 0 or PgSql's "f", or a row of it. */
static bool is_refusal(const zval *value)
{
    while (Z_TYPE_P(value) == IS_ARRAY && zend_hash_num_elements(Z_ARRVAL_P(value)) > 0) {
        const zval *element = NULL;
        /* FETCH_BOTH has the value twice. */
        ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(value), element) {
            break;
        } ZEND_HASH_FOREACH_END();
        value = element;
    }
    if (Z_TYPE_P(value) == IS_STRING) {
        return zend_string_equals_literal(Z_STR_P(value), "f") || zend_string_equals_literal(Z_STR_P(value), "0");
    }
    return Z_TYPE_P(value) == IS_FALSE || (Z_TYPE_P(value) == IS_LONG && Z_LVAL_P(value) == 0);
}

/* Polling for a lock of the session changes nothing until the lock is acquired. */
static void note_lock(shim_connection *root, shim_connection *statement, const zend_execute_data *execute_data,
                      const zval *result)
{
    if (statement == NULL || statement->kind != SHIM_KIND_PDO_STATEMENT || !statement->has_unread_try ||
        !(shim_is_called(execute_data, "fetch") || shim_is_called(execute_data, "fetchcolumn") ||
          shim_is_called(execute_data, "fetchall"))) {
        return;
    }
    statement->has_unread_try = false;
    const uint64_t request = shim_running_serial();
    /* With FETCH_FUNC, which has a second argument, the value is that of the callback. */
    if (root->lock_attempt_request == request && ZEND_CALL_NUM_ARGS(execute_data) <= 1 && is_refusal(result)) {
        root->session_state_request = 0;
        root->locked_by = root->was_unlocked && root->locked_by == request ? 0 : root->locked_by;
    }
    root->lock_attempt_request = 0;
}

void shim_rest_note_rows(shim_connection *root, shim_connection *subject, const zend_execute_data *execute_data,
                         const zval *result)
{
    note_fetched(execute_data, result);
    if (root->lock_attempt_request != 0) {
        note_lock(root, subject, execute_data, result);
    }
}

/* Whether the request has fetched some rows of a result, but not all, or something else is under way on its connection.
 * Drivers that do not know the number of rows report 0. */
static bool is_in_the_middle(const shim_connection *one, const void *fiber)
{
    if (one->kind == SHIM_KIND_PDO_STATEMENT && one->object != NULL && one->fetched > 0 &&
        shim_pdo_has_result(one->object)) {
        return one->fetched_by == ((const shim_fiber *)fiber)->context.serial &&
               one->fetched < shim_pdo_row_count(one->object);
    }
    return one->user == fiber && shim_kind_is_connection(one->kind) && !one->owned.is_leased &&
           !shim_connection_is_at_rest((shim_connection *)one);
}

bool shim_rest_is_broken(const shim_fiber *fiber)
{
    return shim_connection_find_if(is_in_the_middle, fiber) != NULL;
}

void shim_rest_note_end(shim_connection *connection)
{
    if (connection->kind != SHIM_KIND_PDO || connection->handle == NULL) {
        return;
    }
    if (shim_pdo_ends_with(connection->object)) {
        connection->handle = NULL;
    } else if (shim_running != NULL && shim_hook_is_on(SHIM_HOOK_NET)) {
        /* PDO rolls a transaction back when it frees an object. */
        connection->is_left_open = !is_pdo_idle(connection);
        shim_figures_save(connection, shim_running);
    }
}

void shim_rest_install(void)
{
    shim_owned_callback = (shim_owned_callbacks){.is_at_rest = is_at_rest, .keeps_state = keeps_state, .is_left = is_left};
}
