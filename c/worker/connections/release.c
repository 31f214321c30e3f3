/* The end of a request's use of connections: ends what it has left open, before the next request has its grant.
 *
 * Open transactions and results are rolled back or drained through the library, while the request still owns the
 * connection. A connection is closed if a call on it was interrupted, by a bailout or because its request could no longer
 * wait: the state of the exchange is unknown then. So is one that cannot be cleaned within five seconds. A worker that
 * keeps a closed connection is replaced, unless the extension reconnects. Errors of cleaning are not reported. Session
 * state stays: what SET, a temporary table or Redis's SELECT has changed stays changed for the next request. */
#include "compat.h"
#include "php/context/context.h"
#include "php/engine/engine.h"
#include "worker/connections/connections.h"
#include "worker/connections/owners/owners.h"
#include "worker/hooks/hooks.h"

#include <ext/spl/spl_exceptions.h>

enum { CLEANING_SECONDS = 5 };

static bool is_used_by(const shim_connection *connection, const void *user)
{
    return shim_user_is_noted(connection, user);
}

typedef struct releasing {
    shim_connection *connection;
    bool is_clean;
    /* The server has closed the connection. */
    bool is_lost;
} releasing;

static void reset(void *argument)
{
    releasing *one = argument;
    one->is_clean = shim_connection_reset(one->connection);
    if (EG(exception) != NULL) {
        one->is_clean = false;
        zend_clear_exception();
    }
}

/* Whether the connection was lent by another request that is still running: fetched rows and session locks may belong to
 * that one. */
static bool has_lender(const shim_connection *connection)
{
    const uint64_t request = shim_running_serial();
    const shim_kept *other = connection->kept;
    while (other != NULL && other->request == request) {
        other = other->next;
    }
    return shim_owner_is_borrower(&connection->owned) && other != NULL;
}

static bool locks_are_its_own(const shim_connection *connection)
{
    return !has_lender(connection) || connection->locked_by == shim_running_serial();
}

static void reset_at_end(void *argument)
{
    releasing *one = argument;
    one->is_clean = has_lender(one->connection) && shim_connection_is_at_rest(one->connection);
    if (!one->is_clean) {
        reset(one);
    }
    if (one->is_clean && locks_are_its_own(one->connection)) {
        one->is_clean = shim_connection_unlock(one->connection) && EG(exception) == NULL;
        zend_clear_exception();
    }
    if (one->is_clean && !has_lender(one->connection)) {
        shim_figures_clear(one->connection);
    }
    one->is_lost = !one->is_clean && shim_connection_is_lost(one->connection);
}

static void close_connection(void *argument)
{
    const releasing *one = argument;
    shim_connection_close(one->connection);
}

static void empty_multi(void *argument)
{
    const releasing *one = argument;
    shim_multi_empty(one->connection, one->is_clean);
    zend_clear_exception();
}

static void roll_back_persistent(void *unused)
{
    (void)unused;
    shim_libpq_untrace_persistent();
    shim_libpq_roll_back_persistent();
    zend_clear_exception();
}

static void free_postponed(void *unused)
{
    (void)unused;
    shim_objects_free_postponed();
    zend_clear_exception();
}

/* Replaces the worker if its script would find the closed connection dead each time. If the server has closed it, the
 * application has to reconnect, as it does under other servers: while the server is down, a new worker could not boot. */
static void lose(const shim_connection *connection, bool is_lost)
{
    if (connection->object != NULL && !is_lost && !shim_connection_reconnects(connection)) {
        shim_own_worker.has_lost_connection = true;
    }
}

/* Leaves a connection in whose call a fiber is still suspended. A curl transfer continues with the fiber. On other
 * connections, the fiber could not be ended; no other request can use the connection before it is. */
static void leave(shim_connection *connection)
{
    if (shim_connection_is_lease(connection)) {
        return;
    }
    connection->is_left = true;
    shim_socket_shut_down(&connection->owned);
    shim_own_worker.has_lost_connection = true;
}

/* Whether a bailout has skipped the rest of a call since the last call of this function. */
static bool was_interrupted(shim_connection *connection)
{
    shim_uses_recover();
    const bool is_broken = connection->owned.is_broken;
    connection->owned.is_broken = false;
    return is_broken;
}

static void clean(shim_connection *connection, const shim_checkpoint *here)
{
    if (connection->object == NULL) {
        return;
    }
    releasing one = {.connection = shim_connection_addref(connection)};
    const bool is_broken = was_interrupted(connection);
    /* After a refused wait, libcurl has ended the transfer itself. */
    const bool is_cut = is_broken || (connection->is_cut && !shim_connection_is_lease(connection));
    connection->is_cut = false;
    if (connection->owned.uses > 0) {
        leave(connection);
    } else if (connection->kind == SHIM_KIND_CURL_MULTI) {
        one.is_clean = is_broken;
        (void)shim_guard(here, empty_multi, &one);
    } else if (is_cut || !shim_guard(here, reset_at_end, &one) || !one.is_clean || was_interrupted(connection)) {
        (void)shim_guard(here, close_connection, &one);
        (void)was_interrupted(connection);
        lose(connection, one.is_lost);
    }
    shim_connection_delref(connection);
}

/* Returns a connection that `user` was the last to use, and forgets the user first: calls that clean the connection take
 * it, and would note their user. */
static shim_connection *take_next(const shim_fiber *user)
{
    shim_connection *connection = NULL;
    do {
        connection = shim_connection_find_if(is_used_by, user);
    } while (connection != NULL && !shim_user_leave(connection, user));
    return connection;
}

typedef struct silence {
    zval handler;
    int reporting;
    bool is_task;
} silence;

/* Disables the script's error handler and error reporting, and sets a new time limit, so that a cancelled task, or a
 * request past its limit, may wait. `fiber` is NULL on the thread's own stack. */
static silence begin_silence(shim_fiber *fiber)
{
    silence before = {.reporting = EG(error_reporting)};
    /* The thread's other requests start with this limit. */
    const zend_long limit = EG(timeout_seconds);
    ZVAL_COPY_VALUE(&before.handler, &EG(user_error_handler));
    ZVAL_UNDEF(&EG(user_error_handler));
    EG(error_reporting) = SHIM_REPORTS_NOTHING;
    if (fiber != NULL) {
        before.is_task = fiber->context.is_task;
        fiber->context.is_task = false;
    }
    zend_set_timeout(CLEANING_SECONDS, 1);
    EG(timeout_seconds) = limit;
    return before;
}

static void end_silence(shim_fiber *fiber, const silence *before)
{
    ZVAL_COPY_VALUE(&EG(user_error_handler), &before->handler);
    EG(error_reporting) = before->reporting;
    if (fiber != NULL) {
        fiber->context.is_task = before->is_task;
    }
    /* zend_set_timeout() ignores a limit of 0, and zend_unset_timeout() does nothing if that is the present limit. */
    const zend_long limit = EG(timeout_seconds);
    EG(timeout_seconds) = CLEANING_SECONDS;
    zend_unset_timeout();
    zend_set_timeout(limit, 1);
}

static void clean_all(const shim_fiber *user, shim_fiber *fiber, const shim_checkpoint *here)
{
    shim_connection *connection = take_next(user);
    const bool has_persistent = shim_user_leave_persistent(user);
    if (connection == NULL && !has_persistent) {
        return;
    }
    const silence before = begin_silence(fiber);
    if (fiber != NULL) {
        fiber->lends_nothing = true;
    }
    /* The calls that clean a connection note its user again, a bounded number of times. */
    while (connection != NULL) {
        shim_connection_addref(connection);
        /* A fiber of the boot script may be suspended inside a call, and continues in a request. */
        if (fiber != NULL || connection->owned.uses == 0) {
            clean(connection, here);
        }
        (void)shim_user_leave(connection, user);
        shim_connection_delref(connection);
        connection = take_next(user);
    }
    if (has_persistent) {
        (void)shim_guard(here, roll_back_persistent, NULL);
    }
    end_silence(fiber, &before);
}

void shim_connections_end(shim_fiber *fiber, const shim_checkpoint *here)
{
    if (!fiber->has_used_connection || shim_is_child) {
        return;
    }
    clean_all(fiber, fiber, here);
    (void)shim_guard(here, free_postponed, NULL);
    shim_stores_end(fiber);
    shim_connections_leave(fiber);
}

void shim_connections_end_own_stack(void)
{
    if (!shim_user_take_own_stack() || shim_is_child) {
        return;
    }
    const shim_checkpoint here = shim_checkpoint_here();
    clean_all(shim_user_of_own_stack(), NULL, &here);
    (void)shim_user_take_own_stack();
}

void shim_connections_leave(const shim_fiber *fiber)
{
    if (!fiber->has_used_connection) {
        return;
    }
    while (take_next(fiber) != NULL) {
    }
    shim_owned_release_all(fiber);
    /* Frees connections: their waiters have their grants. */
    shim_figures_end(fiber);
}

/* ---- early release ---- */

static bool is_open_for(const shim_connection *connection, const void *fiber)
{
    return connection->user == fiber && connection->object != NULL && !shim_connection_is_lease(connection) &&
           shim_connection_in_transaction((shim_connection *)connection);
}

static bool is_given_back(const shim_connection *connection, const void *fiber)
{
    return connection->user == fiber && !shim_connection_is_lease(connection);
}

ZEND_NAMED_FUNCTION(shim_release_connections)
{
    ZEND_PARSE_PARAMETERS_NONE();
    if (!shim_hook_is_on(SHIM_HOOK_NET)) {
        return;
    }
    const shim_fiber *fiber = shim_running;
    /* A transaction on lent connections belongs to the borrower. */
    const bool is_in_persistent_transaction =
        shim_owner_of(shim_owner_shared()) == fiber && shim_rest_is_in_persistent_transaction(fiber);
    if (shim_connection_find_if(is_open_for, fiber) != NULL || is_in_persistent_transaction) {
        zend_throw_exception(spl_ce_LogicException,
                             "Connections cannot be released while a transaction is open; commit it or roll it back", 0);
        RETURN_THROWS();
    }
    /* Buffered rows that the script has not fetched yet stay readable: they are no longer part of the connection. */
    if (shim_rest_is_broken(fiber)) {
        zend_throw_exception(spl_ce_LogicException,
                             "Connections cannot be released in the middle of a call or of a result; read the result to its "
                             "end or free it", 0);
        RETURN_THROWS();
    }
    for (shim_connection *one = NULL; (one = shim_connection_find_if(is_given_back, fiber)) != NULL;) {
        one->user = NULL;
    }
    shim_objects_free_postponed();
    shim_owned_release_unleased(fiber);
}
