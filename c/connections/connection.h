/* What is known about each connection of a thread, and about what belongs to one: statements, results, rows.
 *
 * The objects are those of PHP's extensions, which know nothing of owners. A record is kept beside each, from its creation
 * to its end, and is found by the object's handle. An object without a record (there was no memory for one) is treated as
 * a connection that nobody has opened: it can wait too long, but not be shared.
 *
 * Everything is of one thread, as objects are. */
#ifndef SVC_SHIM_CONNECTION_H
#define SVC_SHIM_CONNECTION_H

#include "compat.h"
#include "jump/transfers.h"
#include "owners/turns.h"

#include <stdbool.h>

/* The kinds of objects; connection.c and cleaning.c have a row for each. */
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
    /* NULL once the object is freed: what belonged to it may live longer. */
    zend_object *object;
    shim_kind kind;
    /* What it belongs to: the connection of a statement, the multi handle that an easy handle has been added to. */
    struct shim_connection *parent;
    /* The request that has used it since it became nobody's, and has to leave it clean; without owners, the latest one, and
     * those before it. */
    const shim_fiber *user;
    shim_user *earlier;
    /* Its last user has ended in the middle of a call, which goes on in a suspended fiber or is over by now. */
    bool is_left;
    /* A call was cut short: the library was told that its connection is lost. */
    bool is_cut;
    /* Easy handles in a multi handle. */
    unsigned held;
    /* Calls have left a state that only its own commands end (Redis: a watch, a subscription, a block of commands;
     * Memcached: values that were asked for, and not fetched). */
    bool is_watching;
    bool is_subscribed;
    bool is_in_block;
    /* A persistent connection: other objects may have its socket, or get it. */
    bool may_share_socket;
    /* A store that is persistent: all of a thread may be one connection. */
    bool is_persistent;
    /* Serial numbers: of the request that has changed the state of the session (statements.h), and of the one that has
     * generated the session's last ID (last_ids.h). */
    uint64_t stateful_for;
    uint64_t identified_for;
    /* Figures of requests that have lent the connection (figures.h). */
    shim_kept *kept;
    /* The effects of the prepared statement, or of the connection's latest statement (statements.h). */
    unsigned effects;
    /* The databases that requests have selected in a store (stores.c). */
    struct shim_selections *selections;
    /* Options of a store that requests have changed (options.c), and the former value of the one that the running call
     * changes. */
    shim_kept *options;
    zval option_before;
    /* svc itself makes a call on it, which leaves no trace in the records of requests (options.c, last_ids.c). */
    bool is_in_own_call;
    /* How many rows of a statement have been fetched, and the serial number of the request that has fetched them. */
    zend_long fetched;
    uint64_t fetched_by;
    /* What libcurl calls an easy handle that is in a multi handle, and that multi handle. */
    shim_transfer_pair transfer;
    /* The serial number of the request that may hold a session lock, SHIM_SEVERAL for more than one, 0 for none. */
    uint64_t locked_by;
    /* The boot script may hold a session lock, which is not released. */
    bool keeps_locks;
    /* The object's destructor has run. */
    bool is_destructed;
    /* One for the object, and one for each record that belongs to it, for each call in progress, and for who works with it. */
    unsigned references;
    struct shim_connection *next;
} shim_connection;

/* A record for a new object; NULL if there is no memory. */
shim_connection *shim_connection_add(zend_object *object, shim_kind kind);
/* The record of an object; NULL if it has none. */
shim_connection *shim_connection_find(const zend_object *object);
/* The object is no more. */
void shim_connection_remove(const zend_object *object);
shim_connection *shim_connection_hold(shim_connection *connection);
void shim_connection_let_go(shim_connection *connection);
/* What the object belongs to, from now on. */
void shim_connection_belongs(shim_connection *connection, shim_connection *parent);
/* Whether the running call on it is one that svc makes itself. */
bool shim_connection_is_in_own_call(shim_connection *connection);
/* The connection itself: of a statement, that which has prepared it. */
shim_connection *shim_connection_root(shim_connection *connection);
/* One that passes the test, which changes nothing; NULL if none does. */
shim_connection *shim_connection_which(bool (*test)(const shim_connection *connection, const void *argument),
                                       const void *argument);
/* The thread's objects are no more. */
void shim_connections_forget(void);

/* Whether objects of the kind are connections, rather than what belongs to one. */
bool shim_kind_is_connection(shim_kind kind);
/* Whether they are stores: connections without a session. */
bool shim_kind_is_store(shim_kind kind);
/* What owners own: the connection, or what stands for it and others. */
shim_owned *shim_connection_thing(shim_connection *root);
/* Whether they belong to a request for one call. */
bool shim_kind_is_leased(shim_kind kind);
/* The name of the class, in lower case. */
const char *shim_kind_class(shim_kind kind);

#endif
