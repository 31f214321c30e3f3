/* Persistent connections to PostgreSQL, which several objects may have (PHP 8.3 to 8.5, ext/pgsql).
 *
 * pg_pconnect() frees a connection that it can neither use nor restore, although other objects may have it, and those then
 * use freed memory (_close_pgsql_plink()). Here, they report that the connection is closed. It also makes the latest object
 * the recipient of the connection's notices, which outlives the object (php_pgsql_do_connect()). Here, notices go to the
 * object of the running call. */
#include "compat.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"

typedef struct pg_conn PGconn;
typedef void (*notice_processor)(void *argument, const char *message);
void PQfinish(PGconn *connection);
notice_processor PQsetNoticeProcessor(PGconn *connection, notice_processor process, void *argument);

/* The connection is the first member of the structs of these classes. */
static PGconn **connection_of(zend_object *object)
{
    static const char *const classes[] = {"PgSql\\Connection", "PgSql\\Lob", "PgSql\\Result"};
    const bool has_one = object->ce->type == ZEND_INTERNAL_CLASS && SHIM_IS_LISTED(ZSTR_VAL(object->ce->name), classes);
    return has_one ? (PGconn **)((char *)object - object->handlers->offset) : NULL;
}

static void close_objects(const PGconn *connection)
{
    const zend_objects_store *objects = &EG(objects_store);
    for (uint32_t i = 1; i < objects->top; i++) {
        zend_object *object = objects->object_buckets[i];
        PGconn **own = IS_OBJ_VALID(object) ? connection_of(object) : NULL;
        if (own != NULL && *own == connection) {
            *own = NULL;
        }
    }
}

void PQfinish(PGconn *connection)
{
    __typeof__(&PQfinish) finish = (__typeof__(&PQfinish))shim_libpq(SHIM_SLOT, "PQfinish");
    if (shim_current_call("pg_pconnect") != NULL) {
        close_objects(connection);
    }
    if (finish != NULL) {
        finish(connection);
    }
}

/* ---- notices ---- */

/* PHP's function, whose argument is the struct of an object. */
static notice_processor php_process_notice;

static bool has_connection(zend_object *object, const PGconn *connection)
{
    return zend_string_equals_literal(object->ce->name, "PgSql\\Connection") && *connection_of(object) == connection;
}

/* Returns the object that the running function was given, or another one; NULL if none has the connection. */
static zend_object *recipient(const PGconn *connection)
{
    zend_execute_data *call = EG(current_execute_data);
    zend_object *object =
        call != NULL && call->func != NULL && call->func->type == ZEND_INTERNAL_FUNCTION ? shim_argument_object(call, 1) : NULL;
    if (object != NULL && has_connection(object, connection)) {
        return object;
    }
    const zend_objects_store *objects = &EG(objects_store);
    uint32_t i = objects->top;
    do {
        object = --i > 0 ? objects->object_buckets[i] : NULL;
    } while (i > 0 && !(IS_OBJ_VALID(object) && has_connection(object, connection)));
    return object;
}

static void process_notice(void *argument, const char *message)
{
    zend_object *object = recipient(argument);
    if (object != NULL) {
        php_process_notice(connection_of(object), message);
    }
}

notice_processor PQsetNoticeProcessor(PGconn *connection, notice_processor process, void *argument)
{
    __typeof__(&PQsetNoticeProcessor) set =
        (__typeof__(&PQsetNoticeProcessor))shim_libpq(SHIM_SLOT, "PQsetNoticeProcessor");
    if (set == NULL) {
        return NULL;
    }
    if (shim_current_call("pg_pconnect") == NULL || argument == NULL) {
        return set(connection, process, argument);
    }
    /* The same for all threads. */
    __atomic_store_n(&php_process_notice, process, __ATOMIC_RELAXED);
    return set(connection, process_notice, connection);
}
