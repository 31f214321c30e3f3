/* Figures of the last statement of each request that shares a connection; see connections.h. */
#include "compat.h"
#include "worker/connections/connections.h"
#include "worker/stack/stack.h"

#include <stdlib.h>

/* False only if no connection of the thread keeps figures. */
static __thread bool are_any;

void *shim_figures_mysqlnd(const shim_connection *connection)
{
    zend_object *object = connection->object;
    if (object == NULL) {
        return NULL;
    }
    return connection->kind == SHIM_KIND_MYSQLI                             ? shim_mysqli_library_connection(object)
           : connection->kind == SHIM_KIND_PDO && shim_pdo_is_mysql(object) ? shim_pdo_library_connection(object)
                                                                            : NULL;
}

shim_figures shim_figures_read(const shim_connection *connection)
{
    shim_figures figures = {.row_id = shim_sqlite_row_id(shim_sqlite_database(connection))};
    shim_mysqlnd_read_figures(shim_figures_mysqlnd(connection), &figures.mysqlnd);
    if (connection->kind == SHIM_KIND_PDO && connection->object != NULL) {
        figures.pdo = shim_pdo_state_of(connection->object);
    }
    return figures;
}

void shim_figures_write(const shim_connection *connection, const shim_figures *figures)
{
    shim_mysqlnd_write_figures(shim_figures_mysqlnd(connection), &figures->mysqlnd);
    shim_sqlite_set_row_id(shim_sqlite_database(connection), figures->row_id);
    if (connection->kind == SHIM_KIND_PDO && connection->object != NULL) {
        shim_pdo_set_state(connection->object, figures->pdo);
    }
}

shim_saved_figures *shim_figures_of(const shim_connection *connection, uint64_t request)
{
    shim_kept *one = connection->kept;
    while (one != NULL && one->request != request) {
        one = one->next;
    }
    return (shim_saved_figures *)one;
}

/* If out of memory, the request reads the figures of the last statement of any request. */
static shim_saved_figures *add(shim_connection *connection, uint64_t request)
{
    shim_saved_figures *own = calloc(1, sizeof(*own));
    if (own != NULL) {
        own->kept = (shim_kept){.request = request, .next = connection->kept};
        connection->kept = &own->kept;
        are_any = true;
    }
    return own;
}

void shim_figures_save(shim_connection *connection, const shim_fiber *owner)
{
    shim_saved_figures *own = shim_figures_of(connection, owner->context.serial);
    own = own != NULL ? own : add(connection, owner->context.serial);
    if (own != NULL && !own->is_saved) {
        own->figures = shim_figures_read(connection);
        own->is_saved = true;
    }
}

void shim_figures_restore(shim_connection *connection)
{
    shim_saved_figures *own = shim_figures_of(connection, shim_running->context.serial);
    if (own != NULL && own->is_saved) {
        own->is_saved = false;
        shim_figures_write(connection, &own->figures);
    }
}

/* ---- the end of a request ---- */

void shim_figures_clear(shim_connection *connection)
{
    const shim_figures none = {0};
    shim_figures_write(connection, &none);
}

static bool has_figures_of(const shim_connection *one, const void *request)
{
    return shim_figures_of(one, *(const uint64_t *)request) != NULL;
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
    while (are_any && (one = shim_connection_find_if(has_figures_of, &fiber->context.serial)) != NULL) {
        drop(one, fiber->context.serial);
        shim_connections_forget_unused();
    }
    are_any = are_any && shim_connection_find_if(has_any, NULL) != NULL;
}
