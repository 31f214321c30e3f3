/* Records of a thread's connections, and of the objects that belong to them: statements, results, rows.
 *
 * PHP's extensions have no notion of owners, so a record is kept for each of their objects, from its creation to its end;
 * it is found by the object's handle. An object without a record (out of memory) is treated like a connection that the boot
 * script opened: its users may wait longer than necessary, but never share it.
 *
 * All state is thread-local, as objects are. */
#ifndef SVC_SHIM_CONNECTION_H
#define SVC_SHIM_CONNECTION_H

#include "compat.h"
#include "worker/bailout/transfers.h"
#include "worker/connections/owners/turns.h"

#include <stdbool.h>

/* The kinds of objects; connection.c has a row for each. */
typedef enum shim_kind {
    SHIM_KIND_PDO = 0,
    SHIM_KIND_PDO_STATEMENT,
    SHIM_KIND_PDO_ROW,
    SHIM_KIND_MYSQLI,
    SHIM_KIND_MYSQLI_STATEMENT,
    SHIM_KIND_MYSQLI_RESULT,
    SHIM_KIND_PGSQL,
    SHIM_KIND_PGSQL_RESULT,
    SHIM_KIND_PGSQL_LOB,
    SHIM_KIND_REDIS,
    SHIM_KIND_REDIS_ARRAY,
    SHIM_KIND_REDIS_CLUSTER,
    SHIM_KIND_REDIS_SENTINEL,
    SHIM_KIND_MEMCACHED,
    SHIM_KIND_SQLITE,
    SHIM_KIND_SQLITE_STATEMENT,
    SHIM_KIND_SQLITE_RESULT,
    SHIM_KIND_CURL,
    SHIM_KIND_CURL_MULTI,
    SHIM_KINDS,
} shim_kind;

/* A request that uses a connection at the same time as others (users.h). */
typedef struct shim_user {
    const shim_fiber *fiber;
    struct shim_user *next;
} shim_user;

#define SHIM_SEVERAL UINT64_MAX

/* The head of a record that a connection keeps for a request. Freed with the connection. */
typedef struct shim_kept {
    uint64_t request;
    struct shim_kept *next;
} shim_kept;

typedef struct shim_connection {
    shim_owned owned;
    /* NULL once the object is freed: the records that belong to it may live longer. */
    zend_object *object;
    shim_kind kind;
    /* The connection of a statement, or the multi handle that an easy handle has been added to. */
    struct shim_connection *parent;
    /* The request that has used the connection since it was last free, and cleans it up. Without owners, the latest such
     * request; `earlier` lists the others. */
    const shim_fiber *user;
    shim_user *earlier;
    /* Its last user has ended in the middle of a call, which a suspended fiber may still continue. */
    bool is_left;
    /* A call was cut short: a refused wait made the library believe that its connection is lost. */
    bool is_cut;
    /* A multi handle: the number of its easy handles. */
    unsigned held;
    /* Calls have left a state that only particular commands end (Redis: a watch, a subscription, a block of commands;
     * Memcached: requested values that were not fetched). */
    bool is_watching;
    bool is_subscribed;
    bool is_in_block;
    /* A persistent connection: other objects may have its socket, or get it later. */
    bool may_share_socket;
    /* A persistent store: all of a thread may be one connection. */
    bool is_persistent;
    /* Serial numbers of the request that has changed the session's state (statements.h), and of the one that has generated
     * the session's last ID (last_ids.h). */
    uint64_t stateful_for;
    uint64_t identified_for;
    /* The figures of requests that have lent the connection (figures.h). */
    shim_kept *kept;
    /* The effects of the prepared statement, or of the connection's latest statement (statements.h). */
    unsigned effects;
    /* The databases that requests have selected in a store (stores.c). */
    struct shim_selections *selections;
    /* A store's options that requests have changed (options.c); the former value of the one that the running call
     * changes. */
    shim_kept *options;
    zval option_before;
    /* svc is making a call on it, which leaves no trace in the records of requests (options.c, last_ids.c). */
    bool is_in_own_call;
    /* The number of rows fetched from a statement, and the serial number of the request that has fetched them. */
    zend_long fetched;
    uint64_t fetched_by;
    /* libcurl's handles: of an easy handle in a multi handle, and of that multi handle. */
    shim_transfer_pair transfer;
    /* The serial number of the request that may hold a session lock, SHIM_SEVERAL for more than one, 0 for none. */
    uint64_t locked_by;
    /* The boot script may hold a session lock, which is not released. */
    bool keeps_locks;
    /* The object's destructor has run. */
    bool is_destructed;
    /* One reference for the object, each record that belongs to it, each call in progress, and each function that works
     * with it. */
    unsigned references;
    struct shim_connection *next;
} shim_connection;

/* Returns the record for a new object; NULL if out of memory. */
shim_connection *shim_connection_add(zend_object *object, shim_kind kind);
/* Returns the record of an object; NULL if it has none. */
shim_connection *shim_connection_find(const zend_object *object);
/* Removes the record of an object that is being freed. */
void shim_connection_remove(const zend_object *object);
shim_connection *shim_connection_hold(shim_connection *connection);
void shim_connection_let_go(shim_connection *connection);
/* Sets the parent of the record. */
void shim_connection_belongs(shim_connection *connection, shim_connection *parent);
/* Whether the running call on it was made by svc itself. */
bool shim_connection_is_in_own_call(shim_connection *connection);
/* Returns the connection itself: for a statement, the one that has prepared it. */
shim_connection *shim_connection_root(shim_connection *connection);
/* Returns a record that passes the test; NULL if none does. The test must not change anything. */
shim_connection *shim_connection_which(bool (*test)(const shim_connection *connection, const void *argument),
                                       const void *argument);
/* Frees this thread's records after its objects were destroyed. */
void shim_connections_forget(void);

/* Whether objects of the kind are connections, rather than part of one. */
bool shim_kind_is_connection(shim_kind kind);
/* Whether they are stores: connections without a session. */
bool shim_kind_is_store(shim_kind kind);
/* Returns the unit of ownership: the connection, or the placeholder for it and others. */
shim_owned *shim_connection_thing(shim_connection *root);
/* Whether they belong to a request for one call only. */
bool shim_kind_is_leased(shim_kind kind);
/* Returns the name of the class, in lower case. */
const char *shim_kind_class(shim_kind kind);

#endif
