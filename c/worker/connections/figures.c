/* Figures of the last statement of each request that shares a connection; see connections.h. */
#include "compat.h"
#include "worker/connections/connections.h"
#include "worker/stack/stack.h"

#include <stdio.h>
#include <stdlib.h>

/* False only if no connection of the thread keeps figures. */
static __thread bool are_any;

/* Returns the mysqlnd connection behind PDO or mysqli; NULL for other databases. */
static void *figures_mysqlnd(const shim_connection *connection)
{
    zend_object *object = connection->object;
    if (object == NULL) {
        return NULL;
    }
    return connection->kind == SHIM_KIND_MYSQLI                             ? shim_mysqli_library_connection(object)
           : connection->kind == SHIM_KIND_PDO && shim_pdo_is_mysql(object) ? shim_pdo_library_connection(object)
                                                                            : NULL;
}

static shim_figures read_figures(const shim_connection *connection)
{
    shim_figures figures = {.row_id = shim_sqlite_row_id(shim_sqlite_database(connection))};
    shim_mysqlnd_read_figures(figures_mysqlnd(connection), &figures.mysqlnd);
    if (connection->kind == SHIM_KIND_PDO && connection->object != NULL) {
        figures.pdo = shim_pdo_state_of(connection->object);
    }
    return figures;
}

static void write_figures(const shim_connection *connection, const shim_figures *figures)
{
    shim_mysqlnd_write_figures(figures_mysqlnd(connection), &figures->mysqlnd);
    shim_sqlite_set_row_id(shim_sqlite_database(connection), figures->row_id);
    if (connection->kind == SHIM_KIND_PDO && connection->object != NULL) {
        shim_pdo_set_state(connection->object, figures->pdo);
    }
}

/* Returns the figures of a request; NULL if it has never lent the connection. */
static shim_figures_aside *figures_of(const shim_connection *connection, uint64_t request)
{
    shim_kept *one = connection->kept;
    while (one != NULL && one->request != request) {
        one = one->next;
    }
    return (shim_figures_aside *)one;
}

/* If out of memory, the request reads the figures of the last statement of any request. */
static shim_figures_aside *add(shim_connection *connection, uint64_t request)
{
    shim_figures_aside *own = calloc(1, sizeof(*own));
    if (own != NULL) {
        own->kept = (shim_kept){.request = request, .next = connection->kept};
        connection->kept = &own->kept;
        are_any = true;
    }
    return own;
}

void shim_figures_put_aside(shim_connection *connection, const shim_fiber *owner)
{
    shim_figures_aside *own = figures_of(connection, owner->context.serial);
    own = own != NULL ? own : add(connection, owner->context.serial);
    if (own != NULL && !own->are_aside) {
        own->figures = read_figures(connection);
        own->are_aside = true;
    }
}

void shim_figures_put_back(shim_connection *connection)
{
    shim_figures_aside *own = figures_of(connection, shim_running->context.serial);
    if (own != NULL && own->are_aside) {
        own->are_aside = false;
        write_figures(connection, &own->figures);
    }
}

/* ---- the end of a request ---- */

static bool has_figures_of(const shim_connection *one, const void *request)
{
    return figures_of(one, *(const uint64_t *)request) != NULL;
}

static bool has_any(const shim_connection *one, const void *unused)
{
    (void)unused;
    return one->kept != NULL;
}

static void drop(shim_connection *connection, uint64_t request)
{
    shim_kept **link = &connection->kept;
    while ((*link)->request != request) {
        link = &(*link)->next;
    }
    shim_kept *one = *link;
    *link = one->next;
    free(one);
}

void shim_figures_end(const shim_fiber *fiber)
{
    shim_connection *one = NULL;
    while (are_any && (one = shim_connection_which(has_figures_of, &fiber->context.serial)) != NULL) {
        drop(one, fiber->context.serial);
    }
    are_any = are_any && shim_connection_which(has_any, NULL) != NULL;
}

/* ---- generated IDs of requests that share a session ---- */

enum { STATEMENT_MAX = 80 };

static bool is_postgres(const shim_connection *connection)
{
    const char *driver =
        connection->kind == SHIM_KIND_PDO && connection->object != NULL ? shim_pdo_driver(connection->object) : NULL;
    return connection->kind == SHIM_KIND_PGSQL || (driver != NULL && strcmp(driver, "pgsql") == 0);
}

/* Executes a statement without changing the figures. If it fails, the connection is lost or the request is over, and the
 * request's own call fails too. */
static void tell_session(shim_connection *connection, const char *statement)
{
    const shim_figures before = read_figures(connection);
    connection->is_in_own_call = true;
    (void)shim_connection_execute(connection, statement);
    connection->is_in_own_call = false;
    zend_clear_exception();
    write_figures(connection, &before);
}

/* Returns the lowest free number of a session variable: a session never frees its variables. */
static unsigned free_variable(const shim_connection *connection)
{
    unsigned number = 1;
    const shim_kept *one = connection->kept;
    while (one != NULL) {
        const bool is_taken = ((const shim_figures_aside *)one)->id_kept_in == number;
        number += is_taken;
        one = is_taken ? connection->kept : one->next;
    }
    return number;
}

static void keep(shim_connection *connection, shim_figures_aside *of)
{
    char statement[STATEMENT_MAX];
    const unsigned number = free_variable(connection);
    (void)snprintf(statement, sizeof(statement), "SET @svc_id_%u = LAST_INSERT_ID()", number);
    of->id_kept_in = number;
    tell_session(connection, statement);
}

static void return_to(shim_connection *connection, shim_figures_aside *of)
{
    char statement[STATEMENT_MAX];
    (void)snprintf(statement, sizeof(statement), "SET LAST_INSERT_ID = @svc_id_%u", of->id_kept_in);
    of->id_kept_in = 0;
    tell_session(connection, statement);
    connection->identified_for = of->kept.request;
}

/* Saves the session's last ID for its request, before the next statement replaces it. */
static void leave_last(shim_connection *connection, uint64_t request)
{
    shim_figures_aside *other =
        connection->identified_for != request ? figures_of(connection, connection->identified_for) : NULL;
    if (other == NULL) {
        return;
    }
    if (is_postgres(connection)) {
        other->is_id_lost = true;
    } else if (figures_mysqlnd(connection) != NULL && other->id_kept_in == 0) {
        keep(connection, other);
    }
}

bool shim_last_id_is_there(shim_connection *connection, unsigned effects)
{
    const bool makes = (effects & (SHIM_LEAVES_ID | SHIM_LEAVES_STATE)) != 0;
    const bool asks = (effects & (SHIM_ASKS_FOR_ID | SHIM_LEAVES_STATE)) != 0;
    if (connection->kept == NULL) {
        return true;
    }
    const uint64_t request = shim_running->context.serial;
    shim_figures_aside *own = figures_of(connection, request);
    const bool is_kept = own != NULL && own->id_kept_in != 0;
    /* A saved ID is restored before any statement: it may call a function that reads the ID. */
    if (!(makes || asks || is_kept)) {
        return true;
    }
    if (own != NULL && own->is_id_lost && (effects & SHIM_ASKS_FOR_ID) != 0) {
        return false;
    }
    if (makes || is_kept) {
        leave_last(connection, request);
    }
    if (is_kept) {
        return_to(connection, own);
    }
    if (own != NULL && makes) {
        own->is_id_lost = false;
    }
    return true;
}
