/* Results of the last statement that later calls read from the connection: the generated ID, the number of affected rows,
 * the error. Each request reads those of its latest statement, even if another request has used the connection since.
 *
 * The figures on the client's side (IDs, counts and errors of mysqlnd, the row ID of SQLite, the SQLSTATE of PDO) are saved
 * when a request lends its connection, and restored when it gets the connection back. Neither sends anything to the server.
 * For IDs on the server's side, see last_ids.h. */
#ifndef SVC_SHIM_FIGURES_H
#define SVC_SHIM_FIGURES_H

#include "compat.h"
#include "worker/connections/connection.h"
#include "worker/connections/mysqli.h"
#include "worker/connections/pdo.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct shim_figures {
    shim_mysqlnd_figures mysqlnd;
    int64_t row_id;
    shim_pdo_state pdo;
} shim_figures;

/* The figures of a request that has lent the connection. */
typedef struct shim_figures_aside {
    shim_kept kept;
    shim_figures figures;
    /* The figures are saved, and not restored yet. */
    bool are_aside;
    /* The number of the session variable that holds its last ID, or 0; whether that ID is lost (last_ids.h). */
    unsigned id_kept_in;
    bool is_id_lost;
} shim_figures_aside;

shim_figures shim_figures_read(const shim_connection *connection);
void shim_figures_write(const shim_connection *connection, const shim_figures *figures);
/* Saves the figures of a running request that loses the connection. */
void shim_figures_put_aside(shim_connection *connection, const shim_fiber *owner);
/* Restores the figures of the running request if they are saved. */
void shim_figures_put_back(shim_connection *connection);
/* Returns the figures of a request; NULL if it has never lent the connection. */
shim_figures_aside *shim_figures_of(const shim_connection *connection, uint64_t request);
/* Frees the figures of a request that ends, on all connections. */
void shim_figures_end(const shim_fiber *fiber);

/* Returns the mysqlnd connection behind PDO or mysqli; NULL for other databases. */
void *shim_figures_mysqlnd(const shim_connection *connection);

#endif
