/* Generated IDs of requests that share a session; see connections.h. */
#include "compat.h"
#include "worker/connections/connections.h"
#include "worker/stack/stack.h"

#include <stdio.h>

enum { STATEMENT_MAX = 80 };

static bool is_postgres(const shim_connection *connection)
{
    const char *driver =
        connection->kind == SHIM_KIND_PDO && connection->object != NULL ? shim_pdo_driver(connection->object) : NULL;
    return connection->kind == SHIM_KIND_PGSQL || (driver != NULL && strcmp(driver, "pgsql") == 0);
}

/* Executes a statement of svc without changing the figures. If it fails, the connection is lost or the request is over, and the
 * request's own call fails too. */
static void execute_aside(shim_connection *connection, const char *statement)
{
    const shim_figures before = shim_figures_read(connection);
    connection->is_in_own_call = true;
    (void)shim_connection_execute(connection, statement);
    connection->is_in_own_call = false;
    zend_clear_exception();
    shim_figures_write(connection, &before);
}

/* Returns the lowest free number of a session variable: a session never frees its variables. */
static unsigned free_variable(const shim_connection *connection)
{
    unsigned number = 1;
    const shim_kept *one = connection->kept;
    while (one != NULL) {
        const bool is_taken = ((const shim_saved_figures *)one)->id_kept_in == number;
        number += is_taken;
        one = is_taken ? connection->kept : one->next;
    }
    return number;
}

static void save_id(shim_connection *connection, shim_saved_figures *of)
{
    char statement[STATEMENT_MAX];
    const unsigned number = free_variable(connection);
    (void)snprintf(statement, sizeof(statement), "SET @svc_id_%u = LAST_INSERT_ID()", number);
    of->id_kept_in = number;
    execute_aside(connection, statement);
}

static void restore_id(shim_connection *connection, shim_saved_figures *of)
{
    char statement[STATEMENT_MAX];
    (void)snprintf(statement, sizeof(statement), "SET LAST_INSERT_ID = @svc_id_%u", of->id_kept_in);
    of->id_kept_in = 0;
    execute_aside(connection, statement);
    connection->last_id_request = of->kept.request;
}

/* Saves the session's last ID for its request, before the next statement replaces it. */
static void save_id_of_other(shim_connection *connection, uint64_t request)
{
    shim_saved_figures *other =
        connection->last_id_request != request ? shim_figures_of(connection, connection->last_id_request) : NULL;
    if (other == NULL) {
        return;
    }
    if (is_postgres(connection)) {
        other->is_id_lost = true;
    } else if (shim_figures_mysqlnd(connection) != NULL && other->id_kept_in == 0) {
        save_id(connection, other);
    }
}

bool shim_last_id_is_available(shim_connection *connection, unsigned effects)
{
    const bool makes = (effects & (SHIM_LEAVES_ID | SHIM_LEAVES_STATE)) != 0;
    const bool asks = (effects & (SHIM_READS_ID | SHIM_LEAVES_STATE)) != 0;
    /* A statement of mysqli may outlive the object of its connection. */
    if (connection->kept == NULL || connection->object == NULL) {
        return true;
    }
    const uint64_t request = shim_running->context.serial;
    shim_saved_figures *own = shim_figures_of(connection, request);
    const bool is_kept = own != NULL && own->id_kept_in != 0;
    /* A saved ID is restored before any statement: it may call a function that reads the ID. */
    if (!(makes || asks || is_kept)) {
        return true;
    }
    if (own != NULL && own->is_id_lost && (effects & SHIM_READS_ID) != 0) {
        return false;
    }
    if (makes || is_kept) {
        save_id_of_other(connection, request);
    }
    if (is_kept) {
        restore_id(connection, own);
    }
    if (own != NULL && makes) {
        own->is_id_lost = false;
    }
    return true;
}
