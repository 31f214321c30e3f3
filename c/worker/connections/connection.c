/* Records of a thread's connections; see connections.h.
 *
 * A persistent connection outlives its objects, and several of them may have it. What a request leaves in its session concerns
 * all of them, so they have one record: that of the first object. The others are aliases of it, and one of them takes its
 * place when the first object is freed. A record without objects stays while it keeps something for a request. */
#include "compat.h"
#include "worker/connections/connections.h"
#include "worker/connections/owners/owners.h"

#include <stdlib.h>

static const struct {
    const char *class;
    bool is_connection;
    bool is_leased;
    bool is_store;
} kinds[SHIM_KINDS] = {
    [SHIM_KIND_PDO] = {"pdo", true, false, false},
    [SHIM_KIND_PDO_STATEMENT] = {"pdostatement", false, false, false},
    [SHIM_KIND_PDO_ROW] = {"pdorow", false, false, false},
    [SHIM_KIND_MYSQLI] = {"mysqli", true, false, false},
    [SHIM_KIND_MYSQLI_STATEMENT] = {"mysqli_stmt", false, false, false},
    [SHIM_KIND_MYSQLI_RESULT] = {"mysqli_result", false, false, false},
    [SHIM_KIND_PGSQL] = {"pgsql\\connection", true, false, false},
    [SHIM_KIND_PGSQL_RESULT] = {"pgsql\\result", false, false, false},
    [SHIM_KIND_PGSQL_LOB] = {"pgsql\\lob", false, false, false},
    [SHIM_KIND_REDIS] = {"redis", true, true, true},
    [SHIM_KIND_REDIS_ARRAY] = {"redisarray", true, true, true},
    [SHIM_KIND_REDIS_CLUSTER] = {"rediscluster", true, true, true},
    [SHIM_KIND_REDIS_SENTINEL] = {"redissentinel", true, true, true},
    [SHIM_KIND_MEMCACHED] = {"memcached", true, true, true},
    [SHIM_KIND_SQLITE] = {"sqlite3", true, false, false},
    [SHIM_KIND_SQLITE_STATEMENT] = {"sqlite3stmt", false, false, false},
    [SHIM_KIND_SQLITE_RESULT] = {"sqlite3result", false, false, false},
    [SHIM_KIND_CURL] = {"curlhandle", true, true, false},
    [SHIM_KIND_CURL_MULTI] = {"curlmultihandle", true, true, false},
    [SHIM_KIND_SOAP_CLIENT] = {"soapclient", true, true, false},
};

bool shim_kind_is_connection(shim_kind kind)
{
    return kinds[kind].is_connection;
}

bool shim_kind_is_store(shim_kind kind)
{
    return kinds[kind].is_store;
}

/* Placeholder for all persistent stores of the thread. */
static __thread shim_owned persistent_stores = {.is_leased = true, .is_passed_on = true};

shim_owned *shim_connection_owned(shim_connection *root)
{
    return root->is_persistent ? &persistent_stores : &root->owned;
}

bool shim_kind_is_leased(shim_kind kind)
{
    return kinds[kind].is_leased;
}

const char *shim_kind_class(shim_kind kind)
{
    return kinds[kind].class;
}

/* ---- the table, by object handle ---- */

enum { FIRST_ROOM = 64 };

static __thread struct {
    /* Hash chains; their number is a power of two. */
    shim_connection **chains;
    uint32_t room;
    uint32_t count;
} table;

/* Records of persistent connections without objects. */
static __thread shim_connection *without_object;

static shim_connection **chain_of(uint32_t handle)
{
    return &table.chains[handle & (table.room - 1)];
}

/* Grows the table. Returns false if out of memory for any table; one that cannot grow gets longer chains. */
static bool make_room(void)
{
    if (table.count < table.room) {
        return true;
    }
    const uint32_t room = table.room > 0 ? table.room * 2 : FIRST_ROOM;
    shim_connection **old = table.chains;
    const uint32_t old_room = table.room;
    shim_connection **chains = calloc(room, sizeof(*chains));
    if (chains == NULL) {
        return table.room > 0;
    }
    table.chains = chains;
    table.room = room;
    for (uint32_t i = 0; i < old_room; i++) {
        shim_connection *next = NULL;
        for (shim_connection *one = old[i]; one != NULL; one = next) {
            next = one->next;
            shim_connection **chain = chain_of(one->object->handle);
            one->next = *chain;
            *chain = one;
        }
    }
    free(old);
    return true;
}

shim_connection *shim_connection_add(zend_object *object, shim_kind kind)
{
    shim_connection *connection = make_room() ? calloc(1, sizeof(*connection)) : NULL;
    if (connection == NULL) {
        return NULL;
    }
    shim_connection **chain = chain_of(object->handle);
    *connection = (shim_connection){
        .owned = {.is_leased = kinds[kind].is_leased, .is_passed_on = kinds[kind].is_store},
        .object = object,
        .kind = kind,
        .references = 1,
        .next = *chain,
    };
    *chain = connection;
    table.count++;
    return connection;
}

/* Returns the link to the object's record; NULL if it has none. */
static shim_connection **find_link(const zend_object *object)
{
    if (table.room == 0) {
        return NULL;
    }
    shim_connection **link = chain_of(object->handle);
    while (*link != NULL && (*link)->object != object) {
        link = &(*link)->next;
    }
    return *link != NULL ? link : NULL;
}

shim_connection *shim_connection_find(const zend_object *object)
{
    shim_connection **link = find_link(object);
    return link == NULL ? NULL : (*link)->is_alias ? (*link)->parent : *link;
}

bool shim_connection_destruct(const zend_object *object)
{
    shim_connection **link = find_link(object);
    const bool is_first = link == NULL || !(*link)->is_destructed;
    if (link != NULL) {
        (*link)->is_destructed = true;
    }
    return is_first;
}

shim_connection *shim_connection_addref(shim_connection *connection)
{
    if (connection != NULL) {
        connection->references++;
    }
    return connection;
}

bool shim_connection_is_in_own_call(shim_connection *connection)
{
    /* svc makes its calls inside a script's call: without an outer call, a bailout has skipped the reset of the flag. */
    connection->is_in_own_call = connection->is_in_own_call && connection->owned.uses > 1;
    return connection->is_in_own_call;
}

static void free_all(shim_kept *first)
{
    while (first != NULL) {
        shim_kept *next = first->next;
        free(first);
        first = next;
    }
}

void shim_connection_delref(shim_connection *connection)
{
    while (connection != NULL && --connection->references == 0) {
        shim_connection *parent = connection->parent;
        shim_socket_detach(&connection->owned);
        shim_owned_forget(&connection->owned);
        free(connection->selections);
        free_all(connection->kept);
        free_all(connection->options);
        while (connection->earlier != NULL) {
            shim_user *next = connection->earlier->next;
            free(connection->earlier);
            connection->earlier = next;
        }
        free(connection);
        connection = parent;
    }
}

void shim_connection_set_parent(shim_connection *connection, shim_connection *parent)
{
    shim_connection *before = connection->parent;
    connection->parent = shim_connection_addref(parent);
    shim_connection_delref(before);
}

/* PDO's objects refer to their parent themselves. */
static const zend_object *parent_object(const shim_connection *connection)
{
    return connection->object == NULL                    ? NULL
           : connection->kind == SHIM_KIND_PDO_STATEMENT ? shim_pdo_of_statement(connection->object)
           : connection->kind == SHIM_KIND_PDO_ROW       ? shim_pdo_of_row(connection->object)
                                                         : NULL;
}

shim_connection *shim_connection_root(shim_connection *connection)
{
    if (connection == NULL || kinds[connection->kind].is_connection) {
        return connection;
    }
    if (connection->parent == NULL) {
        const zend_object *object = parent_object(connection);
        shim_connection *parent = object != NULL ? shim_connection_find(object) : NULL;
        if (parent != NULL) {
            shim_connection_set_parent(connection, shim_connection_root(parent));
        }
    }
    return connection->parent != NULL ? connection->parent : connection;
}

shim_connection *shim_connection_find_if(bool (*test)(const shim_connection *connection, const void *argument),
                                       const void *argument)
{
    for (uint32_t i = 0; i < table.room; i++) {
        shim_connection *one = table.chains[i];
        while (one != NULL && (one->is_alias || !test(one, argument))) {
            one = one->next;
        }
        if (one != NULL) {
            return one;
        }
    }
    shim_connection *one = without_object;
    while (one != NULL && !test(one, argument)) {
        one = one->next;
    }
    return one;
}

/* ---- persistent connections ---- */

static bool has_handle_of(const shim_connection *one, const void *connection)
{
    const shim_connection *other = connection;
    return one->handle == other->handle && one->kind == other->kind && one != other;
}

static shim_connection **find_alias(const shim_connection *connection)
{
    for (uint32_t i = 0; connection->handle != NULL && i < table.room; i++) {
        shim_connection **link = &table.chains[i];
        while (*link != NULL && !((*link)->is_alias && (*link)->parent == connection)) {
            link = &(*link)->next;
        }
        if (*link != NULL) {
            return link;
        }
    }
    return NULL;
}

bool shim_connection_has_one_object(const shim_connection *connection)
{
    return find_alias(connection) == NULL;
}

/* Gives the record of a persistent connection to the object of another record, which is freed. */
static void replace(shim_connection **link, shim_connection *connection)
{
    shim_connection *former = *link;
    connection->object = former->object;
    connection->is_destructed = former->is_destructed;
    connection->is_left_open = false;
    connection->next = former->next;
    *link = connection;
    former->object = NULL;
    former->next = NULL;
    shim_connection_delref(former);
}

static void unlink_without_object(const shim_connection *connection)
{
    shim_connection **link = &without_object;
    while (*link != connection) {
        link = &(*link)->next;
    }
    *link = connection->next;
}

shim_connection *shim_connection_join(shim_connection *connection, const void *handle)
{
    connection->handle = handle;
    shim_connection *first = shim_connection_find_if(has_handle_of, connection);
    if (first == NULL) {
        return connection;
    }
    connection->handle = NULL;
    shim_socket_merge(&connection->owned, &first->owned);
    if (first->object == NULL) {
        unlink_without_object(first);
        replace(find_link(connection->object), first);
    } else {
        shim_connection_set_parent(connection, first);
        connection->is_alias = true;
        connection->user = NULL;
    }
    return first;
}

void shim_connection_remove(const zend_object *object)
{
    shim_connection **link = find_link(object);
    if (link == NULL) {
        return;
    }
    shim_connection *connection = *link;
    *link = connection->next;
    table.count--;
    connection->next = NULL;
    shim_connection **alias = find_alias(connection);
    if (alias != NULL) {
        replace(alias, connection);
        return;
    }
    connection->object = NULL;
    if (connection->handle != NULL && connection->kept != NULL) {
        connection->next = without_object;
        without_object = connection;
    } else {
        shim_connection_delref(connection);
    }
}

static bool is_unused(const shim_connection *one, const void *unused)
{
    (void)unused;
    return one->object == NULL && one->kept == NULL;
}

void shim_connections_forget_unused(void)
{
    for (shim_connection *one = NULL; (one = shim_connection_find_if(is_unused, NULL)) != NULL;) {
        unlink_without_object(one);
        shim_connection_delref(one);
    }
}

void shim_connections_forget(void)
{
    /* The record of a persistent connection may move to an earlier chain. */
    for (uint32_t i = 0; table.count > 0; i = (i + 1) % table.room) {
        while (table.chains[i] != NULL) {
            shim_connection_remove(table.chains[i]->object);
        }
    }
    while (without_object != NULL) {
        shim_connection *one = without_object;
        without_object = one->next;
        shim_connection_delref(one);
    }
    free(table.chains);
    memset(&table, 0, sizeof(table));
}
