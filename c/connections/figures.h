/* What later calls may ask about the last statement of a connection: the ID that it has made, how many rows it has changed,
 * its error. They are the request's that has executed it, whoever uses the connection meanwhile.
 *
 * What the extension or its library keeps itself is put aside when a request loses the connection before its end, and put
 * back when it has it again, without a word to the server: IDs, counts and errors of mysqlnd, the row ID of SQLite, the
 * state of PDO. For what the server keeps, see last_ids.h. */
#ifndef SVC_SHIM_FIGURES_H
#define SVC_SHIM_FIGURES_H

#include "compat.h"
#include "connections/connection.h"
#include "connections/mysqli.h"
#include "connections/pdo.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct shim_figures {
    shim_mysqlnd_figures mysqlnd;
    int64_t row_id;
    shim_pdo_state pdo;
} shim_figures;

/* Those of a request that has lost a connection which it may use again. */
typedef struct shim_figures_aside {
    shim_kept kept;
    shim_figures figures;
    /* They were not put back yet. */
    bool are_aside;
    /* The number of the variable of the session that its last ID is in, or 0; or it is lost (last_ids.h). */
    unsigned id_kept_in;
    bool is_id_lost;
} shim_figures_aside;

shim_figures shim_figures_read(const shim_connection *connection);
void shim_figures_write(const shim_connection *connection, const shim_figures *figures);
/* A request that goes on has the connection no more. */
void shim_figures_put_aside(shim_connection *connection, const shim_fiber *owner);
/* The running request has it, perhaps again. */
void shim_figures_put_back(shim_connection *connection);
/* NULL if the request has not lost the connection so far. */
shim_figures_aside *shim_figures_of(const shim_connection *connection, uint64_t request);
/* The request ends. */
void shim_figures_end(const shim_fiber *fiber);

/* mysqlnd's connection, of whatever extension; NULL for one to another database. */
void *shim_figures_mysqlnd(const shim_connection *connection);

#endif
