/* The end of a request's connections: what it leaves on them is ended, before the next request has its turn.
 *
 * Promises. What is open is rolled back or drained in the words of the library, while the request still has the connection.
 * A connection on which a call was interrupted, by a bailout or because its request waits no more, is closed, for nobody
 * knows how far the exchange had come; so is one that cannot be cleaned within five seconds. A worker that keeps such a
 * connection is replaced, unless the extension connects again by itself. Errors of cleaning are reported to nobody. Session
 * state stays: what SET, a temporary table or SELECT of Redis has changed is changed for the next one. */
#include "compat.h"
#include "connections/busy.h"
#include "connections/cleaning.h"
#include "connections/connection.h"
#include "connections/figures.h"
#include "connections/libpq.h"
#include "connections/multi.h"
#include "connections/objects.h"
#include "connections/rest.h"
#include "connections/stores.h"
#include "connections/tidying.h"
#include "connections/users.h"
#include "context/context.h"
#include "context/own_worker.h"
#include "hooks/hooks.h"
#include "owners/sockets.h"
#include "owners/uses.h"

#include <ext/spl/spl_exceptions.h>

enum { CLEANING_SECONDS = 5 };

static bool is_used_by(const shim_connection *connection, const void *user)
{
    return shim_user_is_noted(connection, user);
}

typedef struct cleaning {
    shim_connection *connection;
    bool is_clean;
    /* By its server. */
    bool is_lost;
} cleaning;

static void tidy(void *argument)
{
    cleaning *one = argument;
    one->is_clean = shim_connection_tidy(one->connection);
    if (EG(exception) != NULL) {
        one->is_clean = false;
        zend_clear_exception();
    }
}

/* Another request that is still running has lent the connection: fetched rows and session locks may belong to it. */
static bool has_lender(const shim_connection *connection)
{
    const uint64_t request = shim_running_serial();
    const shim_kept *other = connection->kept;
    while (other != NULL && other->request == request) {
        other = other->next;
    }
    return connection->owned.is_lent && other != NULL;
}

static bool locks_are_its_own(const shim_connection *connection)
{
    return !has_lender(connection) || connection->locked_by == shim_running_serial();
}

static void tidy_at_end(void *argument)
{
    cleaning *one = argument;
    one->is_clean = has_lender(one->connection) && shim_connection_is_at_rest(one->connection);
    if (!one->is_clean) {
        tidy(one);
    }
    if (one->is_clean && locks_are_its_own(one->connection)) {
        one->is_clean = shim_connection_unlock(one->connection) && EG(exception) == NULL;
        zend_clear_exception();
    }
    one->is_lost = !one->is_clean && shim_connection_is_lost(one->connection);
}

static void close_it(void *argument)
{
    const cleaning *one = argument;
    shim_connection_close(one->connection);
}

static void empty_it(void *argument)
{
    const cleaning *one = argument;
    shim_multi_empty(one->connection, one->is_clean);
    zend_clear_exception();
}

static void roll_back_persistent(void *unused)
{
    (void)unused;
    shim_libpq_roll_back_persistent();
    zend_clear_exception();
}

static void free_postponed(void *unused)
{
    (void)unused;
    shim_objects_free_postponed();
    zend_clear_exception();
}

/* The script refers to it still, and would find it dead each time. One that its server has closed is the application's to
 * open again, as it is elsewhere: while the server is down, a worker that boots anew could not. */
static void lose(const shim_connection *connection, bool is_lost)
{
    if (connection->object != NULL && !is_lost && !shim_connection_reconnects(connection)) {
        shim_own_worker.has_lost_connection = true;
    }
}

/* It belongs to a request for a call alone: a handle of curl. */
static bool is_lease(const shim_connection *connection)
{
    return connection->owned.is_leased && !connection->owned.is_passed_on;
}

/* A fiber is still suspended inside a call on the connection. A transfer of curl goes on when the fiber does. Of others, the
 * fiber could not be ended: nobody else can use the connection before it is. */
static void leave(shim_connection *connection)
{
    if (is_lease(connection)) {
        return;
    }
    connection->is_left = true;
    shim_socket_shut_down(&connection->owned);
    shim_own_worker.has_lost_connection = true;
}

/* Whether a bailout has skipped the rest of a call since this was last asked. */
static bool was_interrupted(shim_connection *connection)
{
    shim_uses_mend();
    const bool is_broken = connection->owned.is_broken;
    connection->owned.is_broken = false;
    return is_broken;
}

static void clean(shim_connection *connection, const shim_place *here)
{
    cleaning one = {.connection = shim_connection_hold(connection)};
    const bool is_broken = was_interrupted(connection);
    /* libcurl has ended a transfer that was cut short. */
    const bool is_cut = is_broken || (connection->is_cut && !is_lease(connection));
    connection->is_cut = false;
    if (connection->owned.uses > 0) {
        leave(connection);
    } else if (connection->kind == SHIM_KIND_CURL_MULTI) {
        one.is_clean = is_broken;
        (void)shim_guard(here, empty_it, &one);
    } else if (is_cut || !shim_guard(here, tidy_at_end, &one) || !one.is_clean || was_interrupted(connection)) {
        (void)shim_guard(here, close_it, &one);
        (void)was_interrupted(connection);
        lose(connection, one.is_lost);
    }
    shim_connection_let_go(connection);
}

/* One that nobody else uses. What cleaning calls takes the connection, and would note its user. */
static shim_connection *take_next(const shim_fiber *user)
{
    shim_connection *connection = NULL;
    do {
        connection = shim_connection_which(is_used_by, user);
    } while (connection != NULL && !shim_user_leave(connection, user));
    return connection;
}

typedef struct silence {
    zval handler;
    int reporting;
    bool is_task;
} silence;

/* No handler of the script is called, and no error is reported. A task that has been cancelled may wait nevertheless, and
 * so may a request past its limit. `fiber` is NULL on the thread's own stack. */
static silence begin_silence(shim_fiber *fiber)
{
    silence before = {.reporting = EG(error_reporting)};
    /* The thread's other requests begin with this one. */
    const zend_long limit = EG(timeout_seconds);
    ZVAL_COPY_VALUE(&before.handler, &EG(user_error_handler));
    ZVAL_UNDEF(&EG(user_error_handler));
    EG(error_reporting) = 0;
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
    zend_set_timeout(EG(timeout_seconds), 1);
}

static void clean_all(const shim_fiber *user, shim_fiber *fiber, const shim_place *here)
{
    shim_connection *connection = take_next(user);
    const bool has_persistent = shim_user_leave_persistent(user);
    if (connection == NULL && !has_persistent) {
        return;
    }
    const silence before = begin_silence(fiber);
    /* Cleaning marks the connection as used by what it calls; a bounded number of times. */
    while (connection != NULL) {
        shim_connection_hold(connection);
        /* A fiber of the boot script may be suspended inside a call, and goes on in a request. */
        if (fiber != NULL || connection->owned.uses == 0) {
            clean(connection, here);
        }
        (void)shim_user_leave(connection, user);
        shim_connection_let_go(connection);
        connection = take_next(user);
    }
    if (has_persistent) {
        (void)shim_guard(here, roll_back_persistent, NULL);
    }
    end_silence(fiber, &before);
}

void shim_connections_end(shim_fiber *fiber, const shim_place *here)
{
    if (!fiber->has_owned || shim_is_child) {
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
    const shim_place here = shim_place_here();
    clean_all(shim_user_of_own_stack(), NULL, &here);
    (void)shim_user_take_own_stack();
}

void shim_connections_leave(const shim_fiber *fiber)
{
    if (!fiber->has_owned) {
        return;
    }
    while (take_next(fiber) != NULL) {
    }
    shim_figures_end(fiber);
    shim_turns_end(fiber);
}

/* ---- early ---- */

static bool is_open_for(const shim_connection *connection, const void *fiber)
{
    return connection->user == fiber && !is_lease(connection) &&
           shim_connection_in_transaction((shim_connection *)connection);
}

static bool is_given_back(const shim_connection *connection, const void *fiber)
{
    return connection->user == fiber && !is_lease(connection);
}

ZEND_NAMED_FUNCTION(shim_release_connections)
{
    ZEND_PARSE_PARAMETERS_NONE();
    if (!shim_hook_is_on(SHIM_HOOK_NET)) {
        return;
    }
    const shim_fiber *fiber = shim_running;
    if (shim_connection_which(is_open_for, fiber) != NULL) {
        zend_throw_exception(spl_ce_LogicException,
                             "Connections cannot be released while a transaction is open; commit it or roll it back", 0);
        RETURN_THROWS();
    }
    /* Rows that the client has, but the script has not, are not dropped: they are read, and not part of the connection. */
    if (shim_rest_is_broken(fiber)) {
        zend_throw_exception(spl_ce_LogicException,
                             "Connections cannot be released in the middle of a call or of a result; read the result to its "
                             "end or free it", 0);
        RETURN_THROWS();
    }
    for (shim_connection *one = NULL; (one = shim_connection_which(is_given_back, fiber)) != NULL;) {
        one->user = NULL;
    }
    shim_objects_free_postponed();
    shim_turns_release(fiber);
}
