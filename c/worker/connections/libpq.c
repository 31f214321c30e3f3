/* Operations that only libpq has: ending a COPY that a script left open, and transactions on connections without an object.
 *
 * While a COPY is open, PQgetResult() returns the result that opened it, over and over. PHP calls it until it returns NULL
 * before each query (pg_query() and its variants), when a connection is freed, and at the end of a request for persistent
 * connections (_rollback_transactions() of ext/pgsql): after a COPY that a script left open, that is an endless loop in C,
 * which no time limit interrupts. So this file interposes PQgetResult(). A caller that gets the same COPY twice in a row is
 * draining results, and the COPY is ended as PQexec() does: the server discards the data it was sent, and the data it sends
 * is read and dropped.
 *
 * A script that calls pg_get_result() twice gets libpq's result: its loop has a time limit. */
#include "compat.h"
#include "php/libc/libc.h"
#include "worker/connections/connections.h"

typedef struct pg_conn PGconn;
typedef struct pg_result PGresult;

PGresult *PQgetResult(PGconn *connection);
int PQresultStatus(const PGresult *result);
void PQclear(PGresult *result);
int PQputCopyEnd(PGconn *connection, const char *error);
int PQgetCopyData(PGconn *connection, char **row, int is_async);
void PQfreemem(void *memory);
int PQtransactionStatus(const PGconn *connection);
PGresult *PQexec(PGconn *connection, const char *query);
void PQuntrace(PGconn *connection);

/* ExecStatusType, in libpq's ABI. */
enum { PGRES_COPY_OUT = 3, PGRES_COPY_IN = 4, PGRES_COPY_BOTH = 8 };

/* The connection whose COPY was the last result on this thread. */
static __thread const PGconn *copying;

#define LIBPQ(name) ((__typeof__(&name))shim_libpq(SHIM_SLOT, #name))

static bool opens_copy(const PGresult *result)
{
    const int status = result != NULL ? LIBPQ(PQresultStatus)(result) : -1;
    return status == PGRES_COPY_OUT || status == PGRES_COPY_IN || status == PGRES_COPY_BOTH;
}

/* Returns false if the COPY cannot be ended because the connection is lost. */
static bool end_copy(PGconn *connection, int status)
{
    if (status != PGRES_COPY_OUT && LIBPQ(PQputCopyEnd)(connection, "the copy was left open") <= 0) {
        return false;
    }
    char *row = NULL;
    while (status != PGRES_COPY_IN && LIBPQ(PQgetCopyData)(connection, &row, 0) > 0) {
        LIBPQ(PQfreemem)(row);
    }
    return true;
}

PGresult *PQgetResult(PGconn *connection)
{
    __typeof__(&PQgetResult) get = LIBPQ(PQgetResult);
    PGresult *result = get != NULL ? get(connection) : NULL;
    if (!opens_copy(result)) {
        copying = NULL;
        return result;
    }
    const bool is_unwanted = copying == connection && shim_current_call("pg_get_result") == NULL;
    copying = connection;
    if (!is_unwanted) {
        return result;
    }
    copying = NULL;
    const bool is_ended = end_copy(connection, LIBPQ(PQresultStatus)(result));
    LIBPQ(PQclear)(result);
    return is_ended ? get(connection) : NULL;
}

/* ---- transactions ---- */

int shim_libpq_status(const void *connection)
{
    __typeof__(&PQtransactionStatus) status = LIBPQ(PQtransactionStatus);
    return status != NULL ? status(connection) : -1;
}

static bool is_in_transaction(PGconn *connection)
{
    const int status = shim_libpq_status(connection);
    return status != SHIM_PG_IDLE && status != SHIM_PG_LOST;
}

/* Calls `visit` with the connections of pg_pconnect() until it returns true. Returns whether it has. */
static bool visit_persistent(bool (*visit)(PGconn *connection))
{
    const bool has_any = zend_hash_num_elements(&EG(persistent_list)) > 0;
    const int type = has_any ? zend_fetch_list_dtor_id("pgsql link persistent") : 0;
    zend_resource *resource = NULL;
    if (type == 0) {
        return false;
    }
    /* By position: while one connection waits, other requests may add to the list. */
    for (HashPosition at = 0; (resource = zend_hash_get_current_data_ptr_ex(&EG(persistent_list), &at)) != NULL;) {
        if (resource->type == type && resource->ptr != NULL && visit(resource->ptr)) {
            return true;
        }
        zend_hash_move_forward_ex(&EG(persistent_list), &at);
    }
    return false;
}

static bool roll_back(PGconn *connection)
{
    if (is_in_transaction(connection)) {
        /* PQexec() reads pending results and ends a COPY. It may return NULL, which PQclear() accepts. */
        LIBPQ(PQclear)(LIBPQ(PQexec)(connection, "ROLLBACK"));
    }
    return false;
}

void shim_libpq_roll_back_persistent(void)
{
    (void)visit_persistent(roll_back);
}

bool shim_libpq_persistent_is_in_transaction(void)
{
    return visit_persistent(is_in_transaction);
}

static bool end_trace(PGconn *connection)
{
    LIBPQ(PQuntrace)(connection);
    return false;
}

void shim_libpq_untrace_persistent(void)
{
    (void)visit_persistent(end_trace);
}
