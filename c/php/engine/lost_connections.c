/* Persistent connections that are lost while objects have them.
 *
 * `new PDO` and pg_pconnect() check whether the connection that they are about to return is alive. PHP frees a dead one at
 * once, although other objects may have it, and those then use freed memory (PHP 8.3 to 8.5: php_pdo_pdbh_dtor(),
 * _close_pgsql_plink()). Here, the last object of PDO frees the connection, and objects of PgSql report that it is closed. */
#include "compat.h"
#include "php/engine/engine.h"
#include "php/libc/libc.h"

#if __has_include(<ext/pdo/php_pdo_driver.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <ext/pdo/php_pdo_driver.h>
#pragma GCC diagnostic pop

/* Whether it is the connection that PDO's constructor has just dropped from its count, and objects have it. */
static bool has_objects(const zend_resource *resource)
{
    const int type = resource->ptr != NULL ? zend_fetch_list_dtor_id("PDO persistent database") : 0;
    return type != 0 && resource->type == type && ((const pdo_dbh_t *)resource->ptr)->refcount > 0;
}
#else
static bool has_objects(const zend_resource *resource)
{
    (void)resource;
    return false;
}
#endif

void ZEND_FASTCALL zend_list_close(zend_resource *resource)
{
    if (has_objects(resource)) {
        resource->ptr = NULL;
    }
    NEXT(zend_list_close)(resource);
}

/* ---- PgSql ---- */

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
