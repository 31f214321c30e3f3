/* Persistent connections to PostgreSQL that are lost while objects have them.
 *
 * pg_pconnect() frees a connection that it can neither use nor restore, although other objects may have it, and those then
 * use freed memory (PHP 8.3 to 8.5, _close_pgsql_plink()). Here, they report that the connection is closed. */
#include "compat.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"

typedef struct pg_conn PGconn;
void PQfinish(PGconn *connection);

/* The connection is the first member of the structs of both classes. */
static PGconn **connection_of(zend_object *object)
{
    static const char *const classes[] = {"PgSql\\Connection", "PgSql\\Lob"};
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

static bool is_called_by_pconnect(void)
{
    const zend_execute_data *call = EG(current_execute_data);
    return call != NULL && call->func != NULL && call->func->type == ZEND_INTERNAL_FUNCTION &&
           call->func->common.function_name != NULL &&
           zend_string_equals_literal(call->func->common.function_name, "pg_pconnect");
}

void PQfinish(PGconn *connection)
{
    __typeof__(&PQfinish) finish = (__typeof__(&PQfinish))shim_libpq(SHIM_SLOT, "PQfinish");
    if (is_called_by_pconnect()) {
        close_objects(connection);
    }
    if (finish != NULL) {
        finish(connection);
    }
}
