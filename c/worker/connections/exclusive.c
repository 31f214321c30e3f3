/* The connections that an object refers to.
 *
 * The place where a wrapper object (Doctrine's, Laravel's) keeps its connection is unknown, so this visits all that PHP's
 * garbage collector would reach from it, breadth first. A library may refer to a whole application: after VALUES_MAX
 * objects and arrays, the rest keeps the shared owner. Runs no script code, and does not use PHP's allocator. */
#include "compat.h"
#include "worker/connections/connections.h"
#include "worker/connections/owners/owners.h"
#include "worker/hooks/hooks.h"

#include <ext/standard/file.h>
#include <stdlib.h>

enum { VALUES_MAX = 1 << 14, SEEN_ROOM = VALUES_MAX * 2 };

typedef struct walk {
    /* Objects and arrays, in the order of their discovery. */
    zend_refcounted *found[VALUES_MAX];
    size_t count;
    /* The same as a hash set of addresses. */
    zend_refcounted *seen[SEEN_ROOM];
} walk;

static void add(walk *walk, zend_refcounted *value)
{
    size_t at = ((uintptr_t)value >> 3) % SEEN_ROOM;
    while (walk->seen[at] != NULL && walk->seen[at] != value) {
        at = (at + 1) % SEEN_ROOM;
    }
    if (walk->seen[at] == NULL && walk->count < VALUES_MAX) {
        walk->seen[at] = value;
        walk->found[walk->count++] = value;
    }
}

/* Only streams of sockets: a cast may change other ones. */
static void set_stream_exclusive(const zend_resource *resource)
{
    php_stream *stream = resource->ptr;
    int descriptor = -1;
    if ((resource->type == php_file_le_stream() || resource->type == php_file_le_pstream()) && stream != NULL &&
        strstr(stream->ops->label, "socket") != NULL &&
        php_stream_cast(stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL, (void **)&descriptor, 0) == SUCCESS) {
        shim_socket_set_stream_exclusive(descriptor);
    }
}

static void visit(walk *walk, zval *value)
{
    if (Z_TYPE_P(value) == IS_INDIRECT) {
        value = Z_INDIRECT_P(value);
    }
    ZVAL_DEREF(value);
    if (Z_TYPE_P(value) == IS_RESOURCE) {
        set_stream_exclusive(Z_RES_P(value));
    } else if (Z_TYPE_P(value) == IS_OBJECT || (Z_TYPE_P(value) == IS_ARRAY && Z_REFCOUNTED_P(value))) {
        add(walk, Z_COUNTED_P(value));
    }
}

static void visit_all(walk *walk, HashTable *values)
{
    zval *value;
    ZEND_HASH_FOREACH_VAL(values, value) {
        visit(walk, value);
    } ZEND_HASH_FOREACH_END();
}

static void set_record_exclusive(const zend_object *object)
{
    shim_connection *connection = shim_connection_root(shim_connection_find(object));
    if (connection != NULL) {
        shim_socket_set_exclusive(&connection->owned);
    }
}

static void visit_object(walk *walk, zend_object *object)
{
    zval *table = NULL;
    int count = 0;
    set_record_exclusive(object);
    HashTable *more = object->handlers->get_gc(object, &table, &count);
    for (int i = 0; i < count; i++) {
        visit(walk, &table[i]);
    }
    if (more != NULL) {
        visit_all(walk, more);
    }
}

void shim_connections_set_exclusive(zend_object *object)
{
    if (!shim_hook_is_on(SHIM_HOOK_NET) || !shim_owner_has_opened(shim_running)) {
        return;
    }
    walk *walk = calloc(1, sizeof(*walk));
    if (walk == NULL) {
        return;
    }
    add(walk, (zend_refcounted *)object);
    for (size_t i = 0; i < walk->count; i++) {
        if (GC_TYPE(walk->found[i]) == IS_OBJECT) {
            visit_object(walk, (zend_object *)walk->found[i]);
        } else {
            visit_all(walk, (HashTable *)walk->found[i]);
        }
    }
    free(walk);
}
